"""The grading app on each store."""

import asyncio
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Find the app even if it is not installed.
sys.path.insert(0, str(ROOT / "apps" / "grading" / "src"))

from tests.support.postgres import postgres_server  # noqa: E402, F401


@pytest.fixture(scope="session")
def grading_template(postgres_server):  # noqa: F811 - the fixture above
    """A PostgreSQL database with the app's tables and nothing else, to copy from."""
    from holdfast.store.postgres.store import PostgresStore

    name = postgres_server.create_database()
    store = PostgresStore(postgres_server.url(name))
    store.use_tables("grading", "holdfast_grading")
    asyncio.run(store.migrate())
    yield name
    postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request, tmp_path):
    """The address of an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'work.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    name = server.create_database(request.getfixturevalue("grading_template"))
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def sqlite_url(tmp_path):
    """The address of an empty SQLite database, where the store does not matter."""
    return f"sqlite:///{tmp_path / 'work.db'}"
