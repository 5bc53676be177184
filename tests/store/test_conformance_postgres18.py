"""The PostgreSQL store passes the conformance suite on PostgreSQL 18 too.

`make test-postgres18` runs the other tests of the store and the short campaigns on it.
"""

import asyncio

import pytest
from tests.store.test_conformance_postgres import check
from tests.support.missing import do_without
from tests.support.postgres18 import find_postgres18
from tests.support.postgres_server import PostgresMissing, PostgresServer

from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.conformance import FACTS


@pytest.fixture(scope="module")
def server():
    try:
        binaries = find_postgres18()
    except PostgresMissing as missing:
        do_without(missing)
    with PostgresServer(fsync=False, binaries=binaries) as server:
        yield server


@pytest.fixture(scope="module")
def template(server):
    name = server.create_database()
    asyncio.run(PostgresStore(server.url(name)).migrate())
    return name


def test_the_server_is_of_version_18(server):
    (version,) = server.execute("SHOW server_version")[0]
    assert version.startswith("18.")


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_the_store_keeps(fact, server, template):
    name = server.create_database(template)
    asyncio.run(check(fact, server.url(name)))
    server.drop_database(name)
