"""An empty store for a campaign, and functions that read its jobs at the end."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.postgres_server import PostgresServer

from campaigns.checker import StoredJob
from holdfast.bootstrap import migrate, open_store
from holdfast.jobs.declare.app import App
from holdfast.jobs.model import EventName, Job
from holdfast.jobs.store_port import Store

_PAGE = 500


@dataclass(frozen=True, slots=True)
class TemporaryStore:
    """A store at `url`; `server` is set for PostgreSQL, `path` for SQLite."""

    url: str
    server: PostgresServer | None = None
    path: Path | None = None

    def store(self) -> Store:
        """Return the store, not yet opened."""
        return open_store(self.url)


@contextmanager
def temporary_store(
    store: str, folder: Path, *, fsync: bool = True, apps: Iterable[App] = ()
) -> Iterator[TemporaryStore]:
    """Create an empty, migrated store in `folder`; stop its private server at the end.

    `fsync` is whether a private server flushes commits to disk. The tables of `apps` are created.

    Raises:
        PostgresMissing: no PostgreSQL server is available.
    """
    if store == "sqlite":
        path = folder / "jobs.db"
        url = f"sqlite:///{path}"
        asyncio.run(migrate(url, apps))
        yield TemporaryStore(url, path=path)
        return
    with PostgresServer(fsync=fsync, settings={"max_connections": "300"}) as server:
        name = server.create_database()
        try:
            asyncio.run(migrate(server.url(name), apps))
            yield TemporaryStore(server.url(name), server=server)
        finally:
            if not server.private:
                server.drop_database(name)


async def read_all(store: Store) -> dict[str, StoredJob]:
    """Return every job of `store`, by id."""
    completions: Counter[str] = Counter()
    sequence = 0
    while page := await store.changes_since(sequence, limit=_PAGE):
        completions.update(event.job_id for event in page if event.name is EventName.COMPLETE)
        sequence = page[-1].sequence
    found: dict[str, StoredJob] = {}
    cursor: str | None = None
    while True:
        jobs = await store.list_jobs(cursor=cursor, limit=_PAGE)
        for job in jobs.jobs:
            found[job.id] = await _stored(store, job, completions[job.id])
        cursor = jobs.next_cursor
        if cursor is None:
            return found


async def _stored(store: Store, job: Job, completions: int) -> StoredJob:
    attempts = await store.attempts(job.id)
    outcomes = tuple((attempt.number, str(attempt.outcome)) for attempt in attempts)
    return StoredJob(
        str(job.status), job.attempt_count, job.token, completions, outcomes, _number(job.result)
    )


def _number(result: str | None) -> int | None:
    value = None if result is None else json.loads(result)
    return value if isinstance(value, int) else None


async def count(store: Store, status: str) -> int:
    """Return the number of jobs with a status, from the store's counters."""
    return sum(getattr(lane, status) for lane in (await store.stats()).lanes)
