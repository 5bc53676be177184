"""The grading app on each store."""

import pytest
from tests.support.postgres import migrated_database, postgres_server, postgres_url
from tests.support.stores import database_url, sqlite_url

__all__ = ["database_url", "postgres_server", "postgres_url", "sqlite_url"]


@pytest.fixture(scope="session")
def postgres_template(postgres_server):
    """A PostgreSQL database with the app's tables and nothing else, to copy from."""
    name = migrated_database(postgres_server, grading="holdfast_grading")
    yield name
    postgres_server.drop_database(name)
