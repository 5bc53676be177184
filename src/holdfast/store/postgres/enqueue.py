"""Take jobs in, on the store's own connection or inside a caller's transaction."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from holdfast.jobs.model import Enqueued, NewJob
from holdfast.jobs.ports import StoreError
from holdfast.store.joining import join
from holdfast.store.postgres.connection import SQL, Database
from holdfast.store.postgres.lanes import Lane, Lanes
from holdfast.store.postgres.values import check_text, shared, sparse

_TEXTS = ("id", "kind", "queue", "arguments", "downstream", "dedup_key", "owner", "meta")


async def enqueue(
    database: Database, lanes: Lanes, jobs: Sequence[NewJob], now: float | None
) -> tuple[Enqueued, ...]:
    """Create `jobs` in a transaction of their own, in one round trip."""
    if not jobs:
        return ()
    given = await _columns(lanes, jobs)
    given |= {"notify": False, "now": now}
    # Most jobs have no twin and an id of their own: then nothing needs to be looked up first.
    if given["dedup_keys"] is None:
        try:
            return _answers(jobs, await database.write("enqueue", **given, all_new=True))
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.UniqueViolationError):
                check_texts(jobs)
                raise
    return _answers(jobs, await database.write("enqueue", **given, all_new=False))


async def enqueue_on(
    connection: object, lanes: Lanes, jobs: Sequence[NewJob], now: float | None
) -> tuple[Enqueued, ...]:
    """Create `jobs` inside the transaction that `connection` is in."""
    joined = join(connection)
    if joined.database != "postgresql":
        raise TypeError(
            f"this connection is one to {joined.database}, but the store is on PostgreSQL"
        )
    # An error in the database would cost the caller the whole transaction.
    check_texts(jobs)
    if not jobs:
        return ()
    given = await _columns(lanes, jobs)
    given |= {"notify": True, "now": now, "all_new": False}
    return _answers(jobs, await joined.execute(SQL["enqueue"], given))


def check_texts(jobs: Sequence[NewJob]) -> None:
    """Refuse text that PostgreSQL cannot hold.

    Raises:
        ValueError: a job has some.
    """
    for job in jobs:
        for name in _TEXTS:
            check_text(f"job {job.id!r}: {name}", getattr(job, name))


async def _columns(lanes: Lanes, jobs: Sequence[NewJob]) -> dict[str, Any]:
    places = [Lane(job.queue, job.downstream or "", job.kind) for job in jobs]
    ids = await lanes.ids(places)
    return {
        "ids": [job.id for job in jobs],
        "lanes": shared([ids[place] for place in places]),
        "kinds": shared([job.kind for job in jobs]),
        "statuses": shared([str(job.status) for job in jobs]),
        "arguments": [job.arguments for job in jobs],
        "priorities": shared([job.priority for job in jobs]),
        "max_attempts": shared([job.max_attempts for job in jobs]),
        "run_ats": sparse([job.run_at for job in jobs]),
        "deadlines": sparse([job.deadline_at for job in jobs]),
        "dedup_keys": sparse([job.dedup_key for job in jobs]),
        "owners": sparse([job.owner for job in jobs]),
        "metas": sparse([job.meta for job in jobs]),
    }


def _answers(jobs: Sequence[NewJob], rows: Sequence[Any]) -> tuple[Enqueued, ...]:
    twins = {number: twin for number, twin in rows}  # noqa: C416 - the rows are no tuples
    return tuple(
        Enqueued(twins.get(number, job.id), number not in twins)
        for number, job in enumerate(jobs, start=1)
    )
