"""PostgreSQL for tests: one private server a session, a fresh migrated database a test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from holdfast.testing.postgres import PostgresMissing, PostgresServer

MISSING = "no PostgreSQL"
_missing: list[str] = []  # looked for once: getting it may take minutes


def pytest_terminal_summary(terminalreporter) -> None:
    """Say loudly, once, that tests were skipped for want of a server."""
    reasons = {
        str(report.longrepr[2])
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and MISSING in report.longrepr[2]
    }
    for reason in sorted(reasons):
        terminalreporter.write_line(f"POSTGRESQL TESTS WERE SKIPPED: {reason}", red=True, bold=True)


def obtain(**options) -> PostgresServer:
    """Return a server that runs, or skip the test; with CI=true that is a failure."""
    server = PostgresServer(**options)
    try:
        if _missing:
            raise PostgresMissing(_missing[0])
        server.start()
    except PostgresMissing as error:
        _missing.append(str(error))
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"CI must not skip: {error}")
        pytest.skip(f"{MISSING}: {error}" if MISSING not in str(error) else str(error))
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
