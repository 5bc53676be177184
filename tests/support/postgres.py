"""PostgreSQL for tests: one private server a session, a fresh migrated database a test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from holdfast.testing.postgres import PostgresMissing, PostgresServer

missing: list[str] = []
"""Why there was no server, once; told at the end of the session."""


def obtain(**options) -> PostgresServer:
    """Return a server that runs, or skip the test; with CI=true that is a failure."""
    server = PostgresServer(**options)
    try:
        server.start()
    except PostgresMissing as error:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"CI must not skip: {error}")
        missing.append(str(error))
        pytest.skip(str(error))
    return server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server whose commits do not wait for the disk: quick, and enough for most tests."""
    server = obtain(fsync=False)
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> Iterator[str]:
    """A database with the schema and nothing else, to copy from."""
    from holdfast.store.postgres.store import PostgresStore

    name = postgres_server.create_database()
    asyncio.run(PostgresStore(postgres_server.url(name)).migrate())
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """The address of a fresh database with the schema."""
    name = postgres_server.create_database(postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)
