"""A shop in the process of a test, and a fleet of Celery workers on each store."""

import secrets

import pytest
from tests.support.celery_shop import Shop
from tests.support.celery_worker import Fleet

from holdfast.clock import SYSTEM_CLOCK
from holdfast.testing import VirtualClock


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


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path)
    yield shop
    shop.process.close()
    shop.app.close()


@pytest.fixture
def quick(shop):
    """The clock that the deliveries wait by before a message goes back."""
    clock = VirtualClock()
    shop.process.clock = clock
    yield clock
    shop.process.clock = SYSTEM_CLOCK
