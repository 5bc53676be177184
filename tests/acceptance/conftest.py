"""The conversion service in its real processes, on each store in turn."""

import pytest
from tests.acceptance.deployment import Deployment
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
)
from tests.support.stores import new_database  # noqa: F401

from holdfast.testing.downstream import ScriptedDownstream


@pytest.fixture(scope="module")
def gateway():
    """A gateway with scripted answers."""
    with ScriptedDownstream() as server:
        yield server


@pytest.fixture(scope="module")
def build_deployment(new_database, tmp_path_factory):  # noqa: F811
    """A function that returns a deployment, not yet started, with its own store and settings."""

    def build(**settings):
        return Deployment(tmp_path_factory.mktemp("deployment"), **new_database(), **settings)

    return build
