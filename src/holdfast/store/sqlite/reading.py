"""Answer questions about jobs from a snapshot."""

import base64
import json
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
from holdfast.store.sqlite.reader import Snapshot
from holdfast.store.sqlite.transaction import Row, as_json

_NEWEST = 2**62
_STATUS = 4
_CANCEL_REQUESTED = 24
_ENDED_BADLY = FINISHED - {JobStatus.COMPLETE}


def get(snapshot: Snapshot, job_id: str, now: float) -> Job | None:
    """Return one job with its arguments."""
    rows = snapshot.rows("read_job", {"id": job_id, "now": now})
    return _job(rows[0][:-1], rows[0][-1]) if rows else None


def list_jobs(
    snapshot: Snapshot, where: JobFilter, cursor: str | None, limit: int, now: float
) -> Page:
    """Return jobs, newest first."""
    (before,) = _decode(cursor, 1) if cursor is not None else (_NEWEST,)
    rows = snapshot.rows(
        _way_in(where), {**_parameters(where), "before": before, "limit": limit + 1, "now": now}
    )
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(tuple(map(_job, rows)), _encode(rows[-1][0]) if more and rows else None)


def _way_in(where: JobFilter) -> str:
    """Choose the index that leaves the least to look at."""
    statuses = set(where.statuses)
    if where.id is not None:
        return "read_jobs_of_id"
    if where.owner is not None:
        return "read_jobs_of_owner"
    failed = where.error_code or where.error_text or where.error_group
    if failed or (statuses and statuses <= _ENDED_BADLY):
        return "read_jobs_ended_badly"
    if statuses and not statuses & FINISHED:
        return "read_jobs_unfinished"
    if len(where.kinds) == 1:
        return "read_jobs_of_kind"
    return "read_jobs"


def _parameters(where: JobFilter) -> dict[str, Any]:
    return {
        "statuses": as_json(where.statuses) if where.statuses else None,
        "kinds": as_json(where.kinds) if where.kinds else None,
        "queue": where.queue,
        "downstream": where.downstream,
        "owner": where.owner,
        "id": where.id,
        "error_code": where.error_code,
        "error_text": where.error_text,
        "error_group": where.error_group,
        "min_attempts": where.min_attempts,
        "created_from": where.created_from,
        "created_to": where.created_to,
    }


def dead_letters(
    snapshot: Snapshot, where: JobFilter, cursor: str | None, limit: int, now: float
) -> tuple[tuple[DeadLetter, ...], str | None]:
    """Return dead letters, newest failure first."""
    before_at, before = _decode(cursor, 2) if cursor is not None else (1e300, _NEWEST)
    place = {"before_at": before_at, "before": before, "limit": limit + 1, "now": now}
    rows = snapshot.rows("read_dead_letters", {**_parameters(where), **place})
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


def dead_letter_groups(snapshot: Snapshot) -> tuple[DeadLetterGroup, ...]:
    """Return the dead letters by group."""
    return tuple(
        DeadLetterGroup(kind, ErrorCode(code), message, count, newest_at, example)
        for kind, code, message, count, newest_at, example in snapshot.rows(
            "read_dead_letter_groups"
        )
    )


def events(snapshot: Snapshot, job_id: str) -> tuple[JobEvent, ...]:
    """Return a job's history."""
    return tuple(map(_event, snapshot.rows("read_events", {"id": job_id})))


def changes_since(
    snapshot: Snapshot, sequence: int, owner: str | None, limit: int
) -> tuple[JobEvent, ...]:
    """Return events after `sequence`."""
    parameters = {"sequence": sequence, "owner": owner, "limit": limit}
    return tuple(map(_event, snapshot.rows("read_changes", parameters)))


def last_sequence(snapshot: Snapshot) -> int:
    """Return the sequence of the newest event."""
    return int(snapshot.rows("read_last_sequence")[0][0])


def schema_version(snapshot: Snapshot) -> int:
    """Return the number of the last migration."""
    return int(snapshot.rows("read_schema_version")[0][0])


def attempts(snapshot: Snapshot, job_id: str) -> tuple[Attempt, ...]:
    """Return a job's attempts, the one under way last."""
    found = []
    for row in snapshot.rows("read_attempts", {"id": job_id}):
        number, token, worker, started, finished, duration, outcome, code, message, after, meta = (
            row
        )
        found.append(
            Attempt(
                job_id,
                number,
                token,
                worker,
                started,
                finished,
                duration,
                AttemptOutcome(outcome),
                _error(code, message),
                after,
                meta,
            )
        )
    running = snapshot.rows("read_running_attempt", {"id": job_id})
    found.extend(Attempt(job_id, *row) for row in running)
    return tuple(found)


def late_results(snapshot: Snapshot, job_id: str) -> tuple[LateResult, ...]:
    """Return what arrived after the deadline."""
    return tuple(
        LateResult(job_id, *row) for row in snapshot.rows("read_late_results", {"id": job_id})
    )


def stats(snapshot: Snapshot) -> Stats:
    """Return the counters."""
    return Stats(
        lanes=tuple(LaneCounts(*row) for row in snapshot.rows("read_lanes")),
        outcomes=tuple(
            OutcomeCounts(kind, JobStatus(status), attempts_made, count)
            for kind, status, attempts_made, count in snapshot.rows("read_outcomes")
        ),
        totals=dict(snapshot.rows("read_totals")),
        oldest_ready_at=dict(snapshot.rows("read_oldest_ready")),
        dead_letters=snapshot.rows("read_dead_count")[0][0],
    )


def _job(row: Row, arguments: str | None = None) -> Job:
    """Return the job in a row of `job_columns`, whose order is that of `Job`'s fields."""
    _, *fields, code, message, dead_letter, held = row
    fields[_STATUS] = JobStatus(fields[_STATUS])
    fields[_CANCEL_REQUESTED] = bool(fields[_CANCEL_REQUESTED])
    reason = DeadLetterReason(dead_letter) if dead_letter else None
    rest = (_error(code, message), reason, bool(held), arguments)
    values: tuple[Any, ...] = (*fields, *rest)
    return Job(*values)


def _error(code: str | None, message: str | None) -> JobError | None:
    return None if code is None else JobError(ErrorCode(code), message or "")


def _event(row: Row) -> JobEvent:
    sequence, job_id, kind, owner, name, at, attempt, duration_ms, code, meta = row
    return JobEvent(
        sequence,
        job_id,
        kind,
        owner,
        EventName(name),
        at,
        attempt,
        duration_ms,
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
