"""Create jobs, on the store's own connection or inside a caller's transaction."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from holdfast.jobs.callers_thread import in_callers_thread
from holdfast.jobs.exceptions import TooManyJobs
from holdfast.jobs.model import Enqueued, NewJob
from holdfast.jobs.owner_locks import OwnerLocks
from holdfast.jobs.store_port import StoreError
from holdfast.store.joining import Joined, join
from holdfast.store.owner_limits import limits_to_check
from holdfast.store.postgres.columns import PAGE, check_text, none_if_empty, one_if_equal
from holdfast.store.postgres.connection import SQL, Connection, Database, rows
from holdfast.store.postgres.identity import Identity
from holdfast.store.postgres.lanes import Lane, Lanes

# A call that waits for a lock of another process holds a connection: give up soon.
_WAIT_BRIEFLY = "SET LOCAL lock_timeout = '10s'"
_TEXTS = ("id", "kind", "queue", "arguments", "downstream", "dedup_key", "owner", "meta")


@dataclass(frozen=True, slots=True)
class _Page:
    """Jobs that one statement creates, in the order in which it enters them, as columns too.

    `places` are those of its numbers in the call, from 0.
    """

    places: Sequence[int]
    jobs: Sequence[NewJob]
    columns: dict[str, Any]

    @property
    def query(self) -> str:
        """The name of the statement that creates its jobs."""
        return "enqueue_by_rule" if "unfinished" in self.columns else "enqueue"

    def answer(self, answers: list[Enqueued], found: Sequence[Any]) -> None:
        """Enter into `answers` which jobs exist instead of those of this page.

        Raises:
            UnknownLane: nothing was created.
        """
        for number, twin in found:
            if number == 0:
                raise UnknownLane
            answers[self.places[number - 1]] = Enqueued(twin, False)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is read before jobs are created: on a connection of its own, so in no transaction.

    A transaction that needed a second connection of the same pool could wait for itself.
    """

    lane_ids: Mapping[Lane, int]
    seqs: Sequence[str]
    now: float | None


class UnknownLane(Exception):
    """A lane is no longer what this process remembers: it was deleted, or the database replaced."""


async def enqueue(
    database: Database,
    lanes: Lanes,
    jobs: Sequence[NewJob],
    now: float | None,
    most: Mapping[str, int],
    locks: OwnerLocks,
) -> tuple[Enqueued, ...]:
    """Create `jobs` in a transaction of their own, in one round trip per page of history.

    Raises:
        TooManyJobs: an owner in `most` would have more unfinished jobs.
        StoreBusy: other calls that create jobs of such an owner take too long.
    """
    while True:
        try:
            if most:
                database.check_open()
                # Before a connection is borrowed: one owner's calls would use up the pool.
                async with locks.hold(most):
                    return await _enqueue_within(database, lanes, jobs, now, most)
            return await _enqueue(database, lanes, jobs, now)
        except UnknownLane:
            lanes.forget()


async def _enqueue(
    database: Database, lanes: Lanes, jobs: Sequence[NewJob], now: float | None
) -> tuple[Enqueued, ...]:
    pages = _pages(jobs, await prepare(database, lanes, jobs, now))
    # Most jobs have no twin and an id of their own: then nothing needs to be looked up first.
    if all(page.columns["dedup_keys"] is None for page in pages):
        try:
            return await _create(database, jobs, pages, all_new=True)
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.UniqueViolationError):
                check_texts(jobs)
                raise
    return await _create(database, jobs, pages, all_new=False)


async def _enqueue_within(
    database: Database,
    lanes: Lanes,
    jobs: Sequence[NewJob],
    now: float | None,
    most: Mapping[str, int],
) -> tuple[Enqueued, ...]:
    """Create `jobs`, then count those of each owner in `most`, one call at a time per owner."""
    check_texts(jobs)
    pages = _pages(jobs, await prepare(database, lanes, jobs, now))

    async def work(connection: Connection) -> tuple[Enqueued, ...]:
        await connection.execute(_WAIT_BRIEFLY)
        for owner in sorted(most):
            await rows(connection, "enqueue_lock_owner", owner=owner)
        answers = await _enter(connection, jobs, pages, all_new=False)
        for owner, limit in limits_to_check(jobs, answers, most):
            found = await rows(connection, "owner_unfinished", owner=owner, most=limit + 1)
            if found[0][0] > limit:
                raise TooManyJobs(owner, limit)
        return answers

    return await database.transaction(work)


async def _create(
    database: Database, jobs: Sequence[NewJob], pages: Sequence[_Page], *, all_new: bool
) -> tuple[Enqueued, ...]:
    if len(pages) == 1:
        how = {"notify": False, "all_new": all_new}
        answers = _created(jobs)
        page = pages[0]
        page.answer(answers, await database.write(page.query, **page.columns, **how))
        return tuple(answers)

    async def work(connection: Connection) -> tuple[Enqueued, ...]:
        return await _enter(connection, jobs, pages, all_new=all_new)

    return await database.transaction(work) if pages else ()


async def _enter(
    connection: Connection, jobs: Sequence[NewJob], pages: Sequence[_Page], *, all_new: bool
) -> tuple[Enqueued, ...]:
    """Create `jobs` in the open transaction of `connection`."""
    how = {"notify": False, "all_new": all_new}
    answers = _created(jobs)
    for page in pages:
        page.answer(answers, await rows(connection, page.query, **page.columns, **how))
    return tuple(answers)


async def create_in(connection: Connection, jobs: Sequence[NewJob], prepared: Prepared) -> None:
    """Create `jobs`, except those that exist, in the transaction of the store's `connection`.

    Args:
        prepared: for these jobs, or for more, of which they are a part in the same order.

    Raises:
        UnknownLane: forget the lanes and repeat the whole transaction.
    """
    check_texts(jobs)
    await _enter(connection, jobs, _pages(jobs, prepared), all_new=False)


async def enqueue_with(
    database: Database,
    lanes: Lanes,
    jobs: Sequence[NewJob],
    now: float | None,
    write: Callable[[Connection], Awaitable[bool]],
) -> bool:
    """Create `jobs` in one transaction with what `write` writes; not if that returns False."""
    while True:
        pages = _pages(jobs, await prepare(database, lanes, jobs, now))

        async def work(connection: Connection, pages: Sequence[_Page] = pages) -> bool:
            if not await write(connection):
                return False
            await _enter(connection, jobs, pages, all_new=False)
            return True

        try:
            return await database.transaction(work)
        except UnknownLane:
            lanes.forget()


async def enqueue_on(
    connection: object,
    database: Database,
    identity: Identity,
    lanes: Lanes,
    jobs: Sequence[NewJob],
    now: float | None,
) -> tuple[Enqueued, ...]:
    """Create `jobs` inside the transaction that `connection` is in."""
    joined = await in_callers_thread(lambda: join(connection))
    await identity.check(joined)
    return await enqueue_joined(joined, database, lanes, jobs, now)


async def enqueue_joined(
    joined: Joined, database: Database, lanes: Lanes, jobs: Sequence[NewJob], now: float | None
) -> tuple[Enqueued, ...]:
    """Create `jobs` inside a transaction on the store's own database."""
    # An error in the database would cost the caller the whole transaction.
    check_texts(jobs)
    answers = _created(jobs)
    for page in _pages(jobs, await prepare(database, lanes, jobs, now)):
        given = {**page.columns, "notify": True, "all_new": False}
        while True:
            try:
                page.answer(answers, await joined.execute(SQL[page.query], given))
                break
            except UnknownLane:
                lanes.forget()
                given |= _lane_columns(page.jobs, await lanes.ids(_lanes_of(page.jobs)))
            except BaseException:
                # A serialization failure may be a lane that was deleted: the next try looks it up.
                lanes.forget()
                raise
    return tuple(answers)


def _created(jobs: Sequence[NewJob]) -> list[Enqueued]:
    return [Enqueued(job.id, True) for job in jobs]


async def prepare(
    database: Database, lanes: Lanes, jobs: Sequence[NewJob], now: float | None
) -> Prepared:
    """Read what creating `jobs` needs; lanes that are missing are created and committed."""
    seqs: list[str] = []
    if len(jobs) > PAGE and _entry_order(jobs) is not None:
        seqs, now = await _take_seqs(database, len(jobs), now)
    return Prepared(await lanes.ids(_lanes_of(jobs)), seqs, now)


def _pages(jobs: Sequence[NewJob], prepared: Prepared) -> list[_Page]:
    """Return `jobs` in pages, entered in an order that all callers share: they cannot deadlock."""
    places = range(len(jobs))
    order = _entry_order(jobs)
    if len(jobs) <= PAGE:
        if order is None:
            return [_Page(places, jobs, _columns(jobs, prepared))] if jobs else []
        entered = [jobs[place] for place in order]
        columns = _columns(entered, prepared)
        columns["numbers"] = [place + 1 for place in order]
        return [_Page(places, entered, columns)]
    pages = []
    for start in places[::PAGE]:
        some = (order or places)[start : start + PAGE]
        entered = [jobs[place] for place in some]
        columns = _columns(entered, prepared)
        if order is not None:
            columns["seqs"] = [prepared.seqs[place] for place in some]
        pages.append(_Page(some, entered, columns))
    return pages


def _entry_order(jobs: Sequence[NewJob]) -> list[int] | None:
    """Return the places of `jobs` by key, or by id for jobs without one; None where they are so.

    Within one page the database puts the ids in order itself.
    """
    if any(job.dedup_key is not None for job in jobs):
        entries: list[Any] = [
            ("", job.id) if job.dedup_key is None else (job.dedup_key, job.kind) for job in jobs
        ]
    elif len(jobs) > PAGE:
        entries = [job.id for job in jobs]
    else:
        return None
    order = sorted(range(len(jobs)), key=entries.__getitem__)
    return None if order == list(range(len(jobs))) else order


async def _take_seqs(database: Database, count: int, now: float | None) -> tuple[list[str], float]:
    """Take numbers and a time for jobs that run in another order than they are entered in.

    As text: a caller's connection may write bigint as a type of its own.
    """
    taken = await database.rows("enqueue_take_numbers", pages=-(-count // PAGE), now=now)
    seqs = [str(taken[place // PAGE][0] - PAGE + place % PAGE + 1) for place in range(count)]
    return seqs, taken[0][1]


def check_texts(jobs: Sequence[NewJob]) -> None:
    """Refuse text that PostgreSQL cannot hold.

    Raises:
        ValueError: a job has some.
    """
    for job in jobs:
        for name in _TEXTS:
            check_text(f"job {job.id!r}: {name}", getattr(job, name))


def _columns(jobs: Sequence[NewJob], prepared: Prepared) -> dict[str, Any]:
    """Return `jobs` as the functions in the database take them."""
    keys = none_if_empty([job.dedup_key for job in jobs])
    return {
        **({} if keys is None else _rule_columns(jobs)),
        **_lane_columns(jobs, prepared.lane_ids),
        "ids": [job.id for job in jobs],
        "numbers": None,
        "seqs": None,
        "now": prepared.now,
        "kinds": one_if_equal([job.kind for job in jobs]),
        "statuses": one_if_equal([str(job.status) for job in jobs]),
        "arguments": one_if_equal([job.arguments for job in jobs]),
        "priorities": one_if_equal([job.priority for job in jobs]),
        "max_attempts": one_if_equal([job.max_attempts for job in jobs]),
        "run_ats": none_if_empty([job.run_at for job in jobs]),
        "deadlines": none_if_empty([job.deadline_at for job in jobs]),
        "dedup_keys": keys,
        "owners": none_if_empty([job.owner for job in jobs]),
        "metas": none_if_empty([job.meta for job in jobs]),
    }


def _rule_columns(jobs: Sequence[NewJob]) -> dict[str, Any]:
    """Return the rules by which `jobs` look for twins; nothing where none has one."""
    rules = [job.dedup_rule for job in jobs]
    if all(rule is None for rule in rules):
        return {}
    return {
        "unfinished": [None if rule is None else rule.unfinished for rule in rules],
        "seconds": [None if rule is None else rule.seconds for rule in rules],
    }


def _lanes_of(jobs: Sequence[NewJob]) -> list[Lane]:
    return [(job.queue, job.downstream or "", job.kind) for job in jobs]


def _lane_columns(jobs: Sequence[NewJob], known: Mapping[Lane, int]) -> dict[str, Any]:
    """Return the lanes of `jobs`, and what they are supposed to be."""
    wanted = _lanes_of(jobs)
    return {
        "lanes": one_if_equal([known[lane] for lane in wanted]),
        "queues": one_if_equal([queue for queue, _, _ in wanted]),
        "downstreams": one_if_equal([downstream for _, downstream, _ in wanted]),
    }
