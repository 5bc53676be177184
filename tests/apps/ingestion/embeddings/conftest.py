"""Each way to compare vectors: SQLite, PostgreSQL without pgvector, and with it."""

import pytest
from tests.support.missing import do_without
from tests.support.postgres import migrated_database
from tests.support.postgres18 import find_postgres18
from tests.support.postgres_server import PostgresMissing, PostgresServer

from holdfast.testing.downstream import ScriptedDownstream


@pytest.fixture(scope="session")
def pgvector_server():
    """PostgreSQL 18 from a package that also has pgvector, with the app's tables."""
    try:
        binaries = find_postgres18()
    except PostgresMissing as missing:
        do_without(missing)
    with PostgresServer(fsync=False, binaries=binaries) as server:
        yield server, migrated_database(server, ingestion="holdfast_ingestion")


@pytest.fixture
def pgvector_url(pgvector_server):
    """The address of an empty database with pgvector."""
    server, template = pgvector_server
    name = server.create_database(template)
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture(params=["sqlite_url", "postgres_url", "pgvector_url"])
def vectors_url(request):
    """The address of an empty database of each kind."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def gemini():
    """A scripted server in the place of Gemini's."""
    with ScriptedDownstream() as server:
        yield server
