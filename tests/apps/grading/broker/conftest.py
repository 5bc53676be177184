"""Grading with a broker in real processes: a server, a Celery worker, and a scripted model."""

import asyncio

import pytest
from tests.apps.grading.broker.deployment import Deployment
from tests.support.grading_processes import ScriptedModel
from tests.support.postgres import postgres_server, postgres_template
from tests.support.rabbitmq import rabbitmq_server

from holdfast.bootstrap import migrate
from holdfast_grading.app import create

__all__ = ["postgres_server", "postgres_template", "rabbitmq_server"]


@pytest.fixture(scope="module")
def deployment(rabbitmq_server, postgres_server, tmp_path_factory):
    """A server and a worker on PostgreSQL, which the tests share; each has its own submissions."""
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    asyncio.run(migrate(url, [create({}).app]))
    folder = tmp_path_factory.mktemp("grading")
    with ScriptedModel() as model, Deployment(folder, url, rabbitmq_server, model) as found:
        yield found
    postgres_server.drop_database(name)
