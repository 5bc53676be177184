"""Answer questions about jobs."""

import base64
import json
from collections import defaultdict
from typing import Any

from holdfast.errors import ErrorCode
from holdfast.jobs.model import (
    FINISHED,
    Attempt,
    AttemptOutcome,
    DeadLetterReason,
    EventName,
    Job,
    JobError,
    JobEvent,
    JobStatus,
    LateResult,
)
from holdfast.jobs.views import (
    DeadLetter,
    DeadLetterGroup,
    JobFilter,
    LaneCounts,
    OutcomeCounts,
    Page,
    Stats,
)
from holdfast.store.postgres.connection import Database, Row

_NEWEST = 2**62
_STATUS = 4
_ENDED_BADLY = FINISHED - {JobStatus.COMPLETE}
_WAITING = frozenset({JobStatus.UPLOADED, JobStatus.QUEUED})


async def get(database: Database, job_id: str, now: float | None) -> Job | None:
    """Return one job with its arguments."""
    rows = await database.rows("read_job", id=job_id, now=now)
    return _job(rows[0][:-1], rows[0][-1]) if rows else None


async def list_jobs(
    database: Database, where: JobFilter, cursor: str | None, limit: int, now: float | None
) -> Page:
    """Return jobs, newest first."""
    (before,) = _decode(cursor, 1) if cursor is not None else (_NEWEST,)
    rows = await database.rows(
        _way_in(where), **_parameters(where), before=int(before), limit=limit + 1, now=now
    )
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(tuple(map(_job, rows)), _encode(rows[-1][0]) if more and rows else None)


def _way_in(where: JobFilter) -> str:
    """Choose the index that leaves the least to look at."""
    statuses = set(where.statuses)
    if where.id is not None:
        return "read_jobs_by_id"
    if where.owner is not None:
        return "read_jobs_of_owner"
    failed = where.error_code or where.error_text or where.error_group
    if failed or (statuses and statuses <= _ENDED_BADLY):
        return "read_jobs_ended_badly"
    if statuses and statuses <= _WAITING:
        return "read_jobs_waiting"
    if statuses and not statuses & FINISHED:
        return "read_jobs_unfinished"
    return "read_jobs"


def _parameters(where: JobFilter) -> dict[str, Any]:
    return {
        "statuses": [str(status) for status in where.statuses] or None,
        "kinds": list(where.kinds) or None,
        "queue": where.queue,
        "downstream": where.downstream,
        "owner": where.owner,
        "id": where.id,
        "error_code": None if where.error_code is None else str(where.error_code),
        "error_text": where.error_text,
        "error_group": where.error_group,
        "min_attempts": where.min_attempts,
        "created_from": where.created_from,
        "created_to": where.created_to,
    }


async def dead_letters(
    database: Database, where: JobFilter, cursor: str | None, limit: int
) -> tuple[tuple[DeadLetter, ...], str | None]:
    """Return dead letters, newest failure first."""
    before_at, before = _decode(cursor, 2) if cursor is not None else (1e300, _NEWEST)
    rows = await database.rows(
        "read_dead_letters",
        **_parameters(where),
        before_at=float(before_at),
        before=int(before),
        limit=limit + 1,
        now=None,
    )
    more = len(rows) > limit
    letters = []
    last = (0.0, 0)
    for row in rows[:limit]:
        job = _job(row)
        assert job.dead_letter is not None
        assert job.error is not None
        assert job.finished_at is not None
        last = (job.finished_at, row[0])
        letters.append(
            DeadLetter(job, job.dead_letter, job.attempt_count, job.error, job.finished_at)
        )
    return tuple(letters), _encode(*last) if more else None


async def dead_letter_groups(database: Database) -> tuple[DeadLetterGroup, ...]:
    """Return the dead letters by group."""
    return tuple(
        DeadLetterGroup(kind, ErrorCode(code), message, count, newest_at, example)
        for kind, code, message, count, newest_at, example in await database.rows(
            "read_dead_letter_groups"
        )
    )


async def events(database: Database, job_id: str) -> tuple[JobEvent, ...]:
    """Return a job's history."""
    return tuple(map(_event, await database.rows("read_events", id=job_id)))


async def changes_since(
    database: Database, sequence: int, owner: str | None, limit: int
) -> tuple[JobEvent, ...]:
    """Return events after `sequence`."""
    rows = await database.rows("read_changes", sequence=sequence, owner=owner, limit=limit)
    return tuple(map(_event, rows))


async def last_sequence(database: Database) -> int:
    """Return the sequence up to which everything is known."""
    return int((await database.rows("read_last_sequence"))[0][0])


async def attempts(database: Database, job_id: str) -> tuple[Attempt, ...]:
    """Return a job's attempts, the one under way last."""
    found = []
    for row in await database.rows("read_attempts", id=job_id):
        number, token, worker, started, ended, duration, outcome, code, message, after, meta = row
        found.append(
            Attempt(
                job_id,
                number,
                token,
                worker,
                started,
                ended,
                duration,
                None if outcome is None else AttemptOutcome(outcome),
                _error(code, message),
                after,
                meta,
            )
        )
    return tuple(found)


async def late_results(database: Database, job_id: str) -> tuple[LateResult, ...]:
    """Return what arrived after the deadline."""
    rows = await database.rows("read_late_results", id=job_id)
    return tuple(LateResult(job_id, *row) for row in rows)


async def stats(database: Database) -> Stats:
    """Return the counters."""
    counted: dict[str, dict[tuple[str, str, str], int]] = defaultdict(dict)
    for family, a, b, c, n in await database.rows("count_read"):
        if n:
            counted[family][a, b, c] = n
    places: dict[str, dict[str, int]] = defaultdict(dict)
    for (lane, place, _), n in counted["lane"].items():
        places[lane][place] = n
    lanes = [
        LaneCounts(queue, downstream or None, kind, **places[str(number)])
        for number, queue, downstream, kind in await database.rows("read_lanes")
    ]
    return Stats(
        lanes=tuple(lanes),
        outcomes=tuple(
            OutcomeCounts(kind, JobStatus(status), int(made), n)
            for (kind, status, made), n in sorted(
                counted["outcome"].items(), key=lambda item: (*item[0][:2], int(item[0][2]))
            )
        ),
        totals={name: n for (name, _, _), n in counted["total"].items()},
        oldest_ready_at=dict(map(tuple, await database.rows("read_oldest_ready"))),
        dead_letters=sum(counted["dead"].values()),
    )


def _job(row: Row, arguments: str | None = None) -> Job:
    """Return the job in a row of `job_columns`, whose order is that of `Job`'s fields."""
    _, *fields, code, message, dead_letter, held = row
    fields[_STATUS] = JobStatus(fields[_STATUS])
    reason = DeadLetterReason(dead_letter) if dead_letter else None
    rest = (_error(code, message), reason, held, arguments)
    values: tuple[Any, ...] = (*fields, *rest)
    return Job(*values)


def _error(code: str | None, message: str | None) -> JobError | None:
    return None if code is None else JobError(ErrorCode(code), message or "")


def _event(row: Row) -> JobEvent:
    sequence, job_id, kind, owner, name, at, attempt, duration, code, meta = row
    return JobEvent(
        sequence,
        job_id,
        kind,
        owner,
        EventName(name),
        at,
        attempt,
        None if duration is None else duration * 1000.0,
        ErrorCode(code) if code else None,
        meta,
    )


def _encode(*place: float) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _decode(cursor: str, length: int) -> list[Any]:
    """Read a cursor back.

    Raises:
        ValueError: it is none of ours.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        place = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        numbers = all(isinstance(part, int | float) and abs(part) < _NEWEST for part in place)
        if numbers and len(place) == length:
            return list(place)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"not a cursor of this list: {cursor!r}")
