"""Answer questions about jobs from a snapshot."""

from typing import Any

from holdfast.jobs.model import FINISHED, Attempt, Job, JobEvent, JobStatus, LateResult
from holdfast.jobs.views import (
    DeadLetter,
    DeadLetterGroup,
    JobFilter,
    LaneCounts,
    OutcomeCounts,
    Page,
    Stats,
)
from holdfast.store import cursors
from holdfast.store.rows import (
    attempt_from,
    dead_letters_from,
    event_from,
    filter_parameters,
    groups_from,
    job_from,
    page_from,
)
from holdfast.store.sqlite.read_pool import Snapshot
from holdfast.store.sqlite.transaction import as_json

_ENDED_BADLY = FINISHED - {JobStatus.COMPLETE}


def get(snapshot: Snapshot, job_id: str, now: float) -> Job | None:
    """Return one job with its arguments."""
    rows = snapshot.rows("read_job", {"id": job_id, "now": now})
    return job_from(rows[0][:-1], rows[0][-1]) if rows else None


def list_jobs(
    snapshot: Snapshot, where: JobFilter, cursor: str | None, limit: int, now: float
) -> Page:
    """Return jobs, newest first."""
    (before,) = cursors.decode(cursor, 1) if cursor is not None else (cursors.NEWEST,)
    rows = snapshot.rows(
        _list_query(where), {**_parameters(where), "before": before, "limit": limit + 1, "now": now}
    )
    return page_from(rows, limit)


def _list_query(where: JobFilter) -> str:
    """Choose the query whose index leaves the fewest rows."""
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
        **filter_parameters(where),
        "statuses": as_json(where.statuses) if where.statuses else None,
        "kinds": as_json(where.kinds) if where.kinds else None,
    }


def dead_letters(
    snapshot: Snapshot, where: JobFilter, cursor: str | None, limit: int, now: float
) -> tuple[tuple[DeadLetter, ...], str | None]:
    """Return dead letters, newest failure first."""
    start = (1e300, cursors.NEWEST)
    before_at, before = start if cursor is None else cursors.decode(cursor, 2)
    place = {"before_at": before_at, "before": before, "limit": limit + 1, "now": now}
    rows = snapshot.rows("read_dead_letters", {**_parameters(where), **place})
    return dead_letters_from(rows, limit)


def dead_letter_groups(snapshot: Snapshot) -> tuple[DeadLetterGroup, ...]:
    """Return the dead letters by group."""
    return groups_from(snapshot.rows("read_dead_letter_groups"))


def events(snapshot: Snapshot, job_id: str) -> tuple[JobEvent, ...]:
    """Return a job's history."""
    return tuple(map(event_from, snapshot.rows("read_events", {"id": job_id})))


def changes_since(
    snapshot: Snapshot, sequence: int, owner: str | None, limit: int
) -> tuple[JobEvent, ...]:
    """Return events after `sequence`."""
    parameters = {"sequence": sequence, "owner": owner, "limit": limit}
    return tuple(map(event_from, snapshot.rows("read_changes", parameters)))


def last_sequence(snapshot: Snapshot) -> int:
    """Return the sequence of the newest event."""
    return int(snapshot.rows("read_last_sequence")[0][0])


def schema_version(snapshot: Snapshot) -> int:
    """Return the number of the last migration."""
    return int(snapshot.rows("read_schema_version")[0][0])


def attempts(snapshot: Snapshot, job_id: str) -> tuple[Attempt, ...]:
    """Return a job's attempts, the one under way last."""
    ended = [attempt_from(job_id, row) for row in snapshot.rows("read_attempts", {"id": job_id})]
    running = snapshot.rows("read_running_attempt", {"id": job_id})
    return (*ended, *(Attempt(job_id, *row) for row in running))


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
