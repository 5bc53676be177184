"""A fleet of Celery workers on each store, with classic and with quorum queues."""

import secrets

import pytest
from tests.support.celery_worker import Fleet


@pytest.fixture(scope="module", params=["sqlite-classic", "postgres-quorum"])
def fleet(request, rabbitmq_server, tmp_path_factory):
    """A fleet with one worker, which the tests of a module share; each uses its own requests."""
    store, kind = request.param.split("-")
    folder = tmp_path_factory.mktemp("fleet")
    server = name = None
    if store == "sqlite":
        url = f"sqlite:///{folder}/tasks.db"
    else:
        server = request.getfixturevalue("postgres_server")
        name = server.create_database(request.getfixturevalue("postgres_template"))
        url = server.url(name)
    found = Fleet(rabbitmq_server, url, folder, f"tasks.{secrets.token_hex(4)}", kind)
    try:
        found.start_worker()
        yield found
    finally:
        found.close()
        if server is not None:
            server.drop_database(name)
