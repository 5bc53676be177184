"""Turn rows into values. Both dialects read the same columns in the same order."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from holdfast.errors import stored_code
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.downstreams.record_columns import StoredDownstream, load_downstream
from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.held import HeldBy
from holdfast.jobs.history import Attempt, JobEvent
from holdfast.jobs.model import (
    AttemptOutcome,
    DeadLetterReason,
    EventName,
    Job,
    JobError,
    JobStatus,
    LastError,
)
from holdfast.jobs.periodic_port import ScheduleRecord
from holdfast.jobs.views import DeadLetter, DeadLetterGroup, JobFilter, Page
from holdfast.store import cursors

Row: TypeAlias = Any
"""A tuple, or what a driver makes of one."""

_STATUS = 4
_ATTEMPT_COUNT = 6
_CANCEL_REQUESTED = 24


def job_from(row: Row, arguments: str | None = None) -> Job:
    """Return the job in a row of `job_columns`: the seq, then `Job`'s fields in their order."""
    _, *fields, code, message, dead_letter, held_by, last_error, has_twin = row
    fields[_STATUS] = JobStatus(fields[_STATUS])
    fields[_CANCEL_REQUESTED] = bool(fields[_CANCEL_REQUESTED])
    reason = DeadLetterReason(dead_letter) if dead_letter else None
    holder = HeldBy(held_by) if held_by else None
    error, last = error_from(code, message), last_error_from(last_error)
    if error is not None:
        last = LastError(error.code, error.message, fields[_ATTEMPT_COUNT])
    values: tuple[Any, ...] = (*fields, error, reason, holder, arguments, last, bool(has_twin))
    return Job(*values)


def page_from(rows: Sequence[Row], limit: int) -> Page:
    """Return the first `limit` jobs; one row more says that there are others to go on with."""
    shown = rows[:limit]
    more = len(rows) > limit and len(shown) > 0
    return Page(tuple(map(job_from, shown)), cursors.encode(shown[-1][0]) if more else None)


def dead_letters_from(rows: Sequence[Row], limit: int) -> tuple[tuple[DeadLetter, ...], str | None]:
    """Return the first `limit` dead letters, and a cursor where there is a row more."""
    letters = []
    last = (0.0, 0)
    for row in rows[:limit]:
        job = job_from(row)
        assert job.dead_letter is not None
        assert job.error is not None
        assert job.finished_at is not None
        last = (job.finished_at, row[0])
        letters.append(
            DeadLetter(job, job.dead_letter, job.attempt_count, job.error, job.finished_at)
        )
    return tuple(letters), cursors.encode(*last) if len(rows) > limit else None


def groups_from(rows: Iterable[Row]) -> tuple[DeadLetterGroup, ...]:
    """Return groups of dead letters: kind, code, message, count, newest and oldest failure."""
    return tuple(DeadLetterGroup(kind, stored_code(code), *rest) for kind, code, *rest in rows)


def attempt_from(job_id: str, row: Row) -> Attempt:
    """Return the attempt in a row of `read_attempts`; the one under way has no outcome."""
    number, token, worker, started, ended, duration, outcome, code, message, *rest = row
    return Attempt(
        job_id,
        number,
        token,
        worker,
        started,
        ended,
        duration,
        None if outcome is None else AttemptOutcome(outcome),
        error_from(code, message),
        *rest,
    )


def event_from(row: Row) -> JobEvent:
    """Return the event in a row of `read_events`, which has its duration in seconds."""
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
        stored_code(code) if code else None,
        meta,
    )


def error_from(code: str | None, message: str | None) -> JobError | None:
    """Return the error in two columns."""
    return None if code is None else JobError(stored_code(code), message or "")


def last_error_from(text: str | None) -> LastError | None:
    """Return the error in a JSON array of code, message and number of the attempt."""
    if text is None:
        return None
    code, message, attempt = json.loads(text)
    return LastError(stored_code(code), message, attempt)


def filter_parameters(
    where: JobFilter, array: Callable[[Sequence[str]], Any], floor: int = 0
) -> dict[str, Any]:
    """Return what `job_filter` compares with; `array` makes a parameter of several values.

    Jobs before `floor`, a seq, do not match.
    """
    return {
        "statuses": array(where.statuses) if where.statuses else None,
        "kinds": array(where.kinds) if where.kinds else None,
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
        "text": where.text,
        "floor": floor,
    }


def oldest_from(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Return the fields of `Stats` in rows of `read_oldest_ready`: by queue and by downstream."""
    by_queue: dict[str, float] = {}
    by_downstream: dict[str, float] = {}
    for queue, downstream, at in rows:
        by_queue[queue] = min(at, by_queue.get(queue, at))
        if downstream:
            by_downstream[downstream] = min(at, by_downstream.get(downstream, at))
    return {"oldest_ready_at": by_queue, "oldest_ready_of": by_downstream}


def requests_from(rows: Iterable[Row]) -> WorkerRequests:
    """Return the requests in rows of `worker_requests`: ids of jobs, None to finish."""
    asked = [job_id for (job_id,) in rows]
    return WorkerRequests(tuple(each for each in asked if each is not None), None in asked)


def record_from(row: Row) -> DownstreamRecord:
    """Return the record in a row of `downstream_columns`."""
    return load_downstream(StoredDownstream(*row))


def schedule_from(row: Row) -> ScheduleRecord:
    """Return the schedule in a row of `schedule_list`."""
    name, text, missed, overlap, *rest = row
    return ScheduleRecord(name, text, missed, bool(overlap), *rest)
