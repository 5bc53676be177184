"""Create jobs, on the store's own connection or inside a caller's transaction."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from holdfast.jobs.model import Enqueued, NewJob
from holdfast.jobs.store_port import StoreError
from holdfast.store.joining import join
from holdfast.store.postgres.columns import PAGE, check_text, none_if_empty, one_if_equal
from holdfast.store.postgres.connection import SQL, Connection, Database, rows
from holdfast.store.postgres.identity import Identity
from holdfast.store.postgres.lanes import Lanes

_TEXTS = ("id", "kind", "queue", "arguments", "downstream", "dedup_key", "owner", "meta")

_Page = tuple[Sequence[NewJob], dict[str, Any]]
"""Jobs that one statement creates, and their columns."""


async def enqueue(
    database: Database, lanes: Lanes, jobs: Sequence[NewJob], now: float | None
) -> tuple[Enqueued, ...]:
    """Create `jobs` in a transaction of their own, in one round trip per page of history."""
    pages = [(page, await _columns(lanes, page)) for page in _pages(jobs)]
    # Most jobs have no twin and an id of their own: then nothing needs to be looked up first.
    if all(columns["dedup_keys"] is None for _, columns in pages):
        try:
            return await _create(database, pages, now, all_new=True)
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.UniqueViolationError):
                check_texts(jobs)
                raise
    return await _create(database, pages, now, all_new=False)


async def _create(
    database: Database, pages: Sequence[_Page], now: float | None, *, all_new: bool
) -> tuple[Enqueued, ...]:
    how = {"notify": False, "now": now, "all_new": all_new}
    if len(pages) == 1:
        ((jobs, columns),) = pages
        return _answers(jobs, await database.write("enqueue", **columns, **how))

    async def work(connection: Connection) -> tuple[Enqueued, ...]:
        answers: tuple[Enqueued, ...] = ()
        for jobs, columns in pages:
            answers += _answers(jobs, await rows(connection, "enqueue", **columns, **how))
        return answers

    return await database.transaction(work) if pages else ()


async def enqueue_on(
    connection: object,
    identity: Identity,
    lanes: Lanes,
    jobs: Sequence[NewJob],
    now: float | None,
) -> tuple[Enqueued, ...]:
    """Create `jobs` inside the transaction that `connection` is in."""
    joined = join(connection)
    if joined.database != "postgresql":
        raise TypeError(
            f"this connection is one to {joined.database}, but the store is on PostgreSQL"
        )
    # An error in the database would cost the caller the whole transaction.
    check_texts(jobs)
    await identity.check(joined)
    answers: tuple[Enqueued, ...] = ()
    for page in _pages(jobs):
        given = await _columns(lanes, page)
        given |= {"notify": True, "now": now, "all_new": False}
        answers += _answers(page, await joined.execute(SQL["enqueue"], given))
    return answers


def _pages(jobs: Sequence[NewJob]) -> list[Sequence[NewJob]]:
    return [jobs[start : start + PAGE] for start in range(0, len(jobs), PAGE)]


def check_texts(jobs: Sequence[NewJob]) -> None:
    """Refuse text that PostgreSQL cannot hold.

    Raises:
        ValueError: a job has some.
    """
    for job in jobs:
        for name in _TEXTS:
            check_text(f"job {job.id!r}: {name}", getattr(job, name))


async def _columns(lanes: Lanes, jobs: Sequence[NewJob]) -> dict[str, Any]:
    """Return `jobs` as the functions in the database take them."""
    numbers = None
    if len(jobs) > 1 and none_if_empty([job.dedup_key for job in jobs]) is not None:
        # All callers enter keys in this order, so that they cannot deadlock.
        keyed = sorted(enumerate(jobs, start=1), key=_dedup_order)
        numbers, jobs = [number for number, _ in keyed], [job for _, job in keyed]
    places = [(job.queue, job.downstream or "", job.kind) for job in jobs]
    known = await lanes.ids(set(places))
    return {
        "ids": [job.id for job in jobs],
        "numbers": numbers,
        "lanes": one_if_equal([known[place] for place in places]),
        "kinds": one_if_equal([job.kind for job in jobs]),
        "statuses": one_if_equal([str(job.status) for job in jobs]),
        "arguments": one_if_equal([job.arguments for job in jobs]),
        "priorities": one_if_equal([job.priority for job in jobs]),
        "max_attempts": one_if_equal([job.max_attempts for job in jobs]),
        "run_ats": none_if_empty([job.run_at for job in jobs]),
        "deadlines": none_if_empty([job.deadline_at for job in jobs]),
        "dedup_keys": none_if_empty([job.dedup_key for job in jobs]),
        "owners": none_if_empty([job.owner for job in jobs]),
        "metas": none_if_empty([job.meta for job in jobs]),
    }


def _dedup_order(numbered: tuple[int, NewJob]) -> tuple[str, str]:
    _, job = numbered
    return job.dedup_key or "", job.kind


def _answers(jobs: Sequence[NewJob], found: Sequence[Any]) -> tuple[Enqueued, ...]:
    if not found:
        return tuple([Enqueued(job.id, True) for job in jobs])
    twins = {number: twin for number, twin in found}  # noqa: C416 - the rows are no tuples
    return tuple(
        Enqueued(twins.get(number, job.id), number not in twins)
        for number, job in enumerate(jobs, start=1)
    )
