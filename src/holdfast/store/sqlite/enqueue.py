"""Create jobs, on the store's own connection or inside a caller's transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.exceptions import TooManyJobs
from holdfast.jobs.model import Enqueued, JobStatus, NewJob
from holdfast.store.joining import NoTransaction
from holdfast.store.owner_limits import limits_to_check
from holdfast.store.sqlite.transaction import SQL, Row, Transaction, as_json

Execute = Callable[[str, Mapping[str, Any]], Sequence[Row]]
"""Run one statement with named parameters (`:name`) and return its rows."""

# Changes nothing and takes the write lock, so that what is read next cannot change before the
# jobs are written.
_TAKE_WRITE_LOCK = "UPDATE holdfast_lanes SET held = held WHERE false"


def enqueue(
    tx: Transaction, jobs: Sequence[NewJob], most: Mapping[str, int] | None = None
) -> tuple[Enqueued, ...]:
    """Create `jobs` in the writer's transaction.

    Raises:
        TooManyJobs: an owner in `most` has more unfinished jobs now; roll back.
    """

    def execute(sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return tx.db.execute(sql, parameters).fetchall()

    answers = _enqueue_with(execute, jobs, tx.now)
    for owner, limit in limits_to_check(jobs, answers, most or {}):
        if execute(SQL["owner_unfinished"], {"owner": owner, "most": limit + 1})[0][0] > limit:
            raise TooManyJobs(owner, limit)
    tx.woke = tx.woke or any(answer.created for answer in answers)
    return answers


def enqueue_on(
    path: Path, connection: object, jobs: Sequence[NewJob], now: float
) -> tuple[Enqueued, ...]:
    """Create `jobs` inside the transaction of `connection`; its owner commits or rolls back.

    Raises:
        TypeError, NoTransaction: as `join`.
    """
    return _enqueue_with(join(path, connection), jobs, now)


def join(path: Path, connection: object) -> Execute:
    """Return what runs a statement inside the transaction of `connection`, which may write now.

    Raises:
        TypeError: it is not an apsw connection to the file `path`.
        NoTransaction: it has no open transaction.
    """
    own = check_connection(path, connection)
    if not own.in_transaction:
        raise NoTransaction(
            "this apsw connection has no open transaction to join: "
            "execute BEGIN IMMEDIATE first, or enqueue inside `with connection:`"
        )

    def execute(sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        cursor = apsw.Cursor(own)
        cursor.row_trace = lambda _, row: row  # the caller's may turn rows into something else
        return cursor.execute(sql, parameters).fetchall()

    execute(_TAKE_WRITE_LOCK, {})
    return execute


def check_connection(path: Path, connection: object) -> apsw.Connection:
    """Return `connection` if it can share a transaction with the store.

    Raises:
        TypeError: it is not an apsw connection to the file `path`.
    """
    if not isinstance(connection, apsw.Connection):
        kind = type(connection)
        raise TypeError(
            f"connection= takes an apsw connection to {path}, got "
            f"{kind.__module__}.{kind.__qualname__}. Python's sqlite3, and SQLAlchemy or aiosqlite "
            "on top of it, bring a second copy of SQLite into the process, and two copies undo "
            "each other's file locks: commits would be lost. Enqueue without connection=, open "
            "the file with apsw.Connection (your own tables may live there), or keep the jobs in "
            "PostgreSQL"
        )
    # Older versions of apsw have no asynchronous mode.
    if getattr(connection, "is_async", False):
        raise TypeError("connection= takes an apsw connection in its ordinary mode, not async")
    file = connection.filename
    if not file or not path.samefile(file):
        raise TypeError(
            f"connection= is open on another file than {path}: only a transaction on the same "
            "file can hold both"
        )
    return connection


def _enqueue_with(execute: Execute, jobs: Sequence[NewJob], now: float) -> tuple[Enqueued, ...]:
    """Create `jobs` through `execute`, at `now` in epoch seconds.

    `execute` may belong to any apsw connection to this database: the connection's owner commits
    or rolls back, and the jobs with it.
    """
    answers: tuple[Enqueued, ...] = ()
    for part in _parts(jobs):
        answers += _enqueue_part(execute, part, now)
    return answers


def _parts(jobs: Sequence[NewJob]) -> list[Sequence[NewJob]]:
    """Split `jobs` before each repeated id: whether it is created depends on the one before."""
    if len({job.id for job in jobs}) == len(jobs):
        return [jobs] if jobs else []
    parts: list[list[NewJob]] = [[]]
    seen: set[str] = set()
    for job in jobs:
        if job.id in seen:
            parts.append([])
            seen.clear()
        parts[-1].append(job)
        seen.add(job.id)
    return list(parts)


def _enqueue_part(execute: Execute, jobs: Sequence[NewJob], now: float) -> tuple[Enqueued, ...]:
    if len(jobs) == 1 and _enqueue_one(execute, jobs[0], now):
        return (Enqueued(jobs[0].id, True),)
    wanted = [(job.queue, job.downstream or "", job.kind) for job in jobs]
    lanes = _lane_ids(execute, set(wanted))
    rows = [_row(job, lanes[lane], now) for job, lane in zip(jobs, wanted, strict=True)]
    given = {"jobs": as_json(rows)}
    rules = rule_rows((job.id, job.kind, job.dedup_key, job.dedup_rule) for job in jobs)
    if rules:
        execute(SQL["enqueue_release_keys"], {"rules": as_json(rules), "now": now})
    newest = int(execute(SQL["enqueue_newest"], {})[0][0])
    execute(SQL["enqueue_jobs"], {**given, "now": now})
    created = int(execute(SQL["enqueue_created"], {})[0][0])
    if created:
        arguments = as_json([[job.id, job.arguments] for job in jobs])
        execute(SQL["enqueue_arguments"], {"arguments": arguments, "newest": newest})
        execute(SQL["enqueue_events"], {"newest": newest, "now": now})
        execute(SQL["enqueue_counts"], {"newest": newest})
    if created and rules:
        execute(SQL["enqueue_rules"], {"rules": as_json(rules), "newest": newest})
    if created == len(jobs):
        return tuple([Enqueued(job.id, True) for job in jobs])
    return _answers(jobs, execute(SQL["enqueue_twins"], given), newest)


def _enqueue_one(execute: Execute, job: NewJob, now: float) -> bool:
    """Create a job; False if its lane is missing, its id is taken, or it may have a twin."""
    if job.dedup_rule is not None:
        return False
    name = {"queue": job.queue, "downstream": job.downstream or "", "kind": job.kind}
    lanes = execute(SQL["enqueue_one_lane"], name)
    if not lanes:
        return False
    given = dict(zip(_COLUMNS, _row(job, lanes[0][0], now), strict=True))
    given["now"] = now
    created = execute(SQL["enqueue_one_job"], given)
    if not created:
        return False
    given["job"], given["arguments"] = created[0][0], job.arguments
    execute(SQL["enqueue_one_arguments"], given)
    execute(SQL["enqueue_one_event"], given)
    execute(SQL["enqueue_one_count"], given)
    return True


def rule_rows(jobs: Iterable[tuple[str, str, str | None, DedupRule | None]]) -> list[Row]:
    """Return a row of `:rules` for each of `jobs` (id, kind, key, rule) that has a rule."""
    return [
        (job_id, kind, key, rule.unfinished, rule.seconds)
        for job_id, kind, key, rule in jobs
        if rule is not None and key is not None
    ]


_Lane = tuple[str, str, str]


def _lane_ids(execute: Execute, lanes: set[_Lane]) -> dict[_Lane, int]:
    given = {"lanes": as_json(sorted(lanes))}
    ids = _known_lanes(execute, given)
    if len(ids) < len(lanes):
        execute(SQL["enqueue_lanes"], given)
        ids = _known_lanes(execute, given)
    return ids


def _known_lanes(execute: Execute, given: Mapping[str, str]) -> dict[_Lane, int]:
    rows = execute(SQL["enqueue_lane_ids"], given)
    return {(queue, downstream, kind): lane for queue, downstream, kind, lane in rows}


_COLUMNS = (
    "id", "lane", "kind", "status", "ready", "priority", "ready_at", "max_attempts",
    "deadline_at", "dedup_key", "owner", "meta",
)  # fmt: skip


def _row(job: NewJob, lane: int, now: float) -> Row:
    """Return `job` as `_COLUMNS`."""
    due = job.run_at is None or job.run_at <= now
    return (
        job.id,
        lane,
        job.kind,
        job.status,
        1 if due and job.status is JobStatus.QUEUED else 0,
        job.priority,
        now if due else job.run_at,
        job.max_attempts,
        job.deadline_at,
        job.dedup_key,
        job.owner,
        job.meta,
    )


def _answers(jobs: Sequence[NewJob], rows: Sequence[Row], newest: int) -> tuple[Enqueued, ...]:
    return tuple(
        Enqueued(job.id if own is not None else twin, own is not None and own > newest)
        for job, (_, own, twin) in zip(jobs, rows, strict=True)
    )
