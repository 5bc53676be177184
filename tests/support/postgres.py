"""PostgreSQL for tests: one private server per session, one migrated database per test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.missing import do_without
from tests.support.postgres_server import PostgresMissing, PostgresServer

_missing: list[str] = []  # once: an installation may take minutes


def obtain(**options) -> PostgresServer:
    """Return a running server, or skip the test; with CI=true that is a failure."""
    server = PostgresServer(**options)
    try:
        if _missing:
            raise PostgresMissing(_missing[0])
        server.start()
    except PostgresMissing as error:
        _missing.append(str(error))
        do_without(error)
    return server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server without fsync: fast, and enough for most tests."""
    server = obtain(fsync=False)
    yield server
    server.close()


def migrated_database(
    server: PostgresServer, characters: str | None = None, **app_packages: str
) -> str:
    """Return the name of a new database with the schema, and with the tables of these apps.

    Args:
        characters: the locale that says what a letter is, `LC_CTYPE`; the server's by default.
        app_packages: for each app, by its name, the package with its migrations.
    """
    from holdfast.store.postgres.store import PostgresStore

    name = server.create_database(characters=characters)
    store = PostgresStore(server.url(name))
    for app, package in app_packages.items():
        store.use_tables(app, package)
    asyncio.run(store.migrate())
    return name


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> Iterator[str]:
    """A database with the schema and nothing else, to copy from."""
    name = migrated_database(postgres_server)
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """The URL of a new migrated database."""
    name = postgres_server.create_database(postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)
