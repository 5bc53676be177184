"""Read jobs, their history and the counters."""

from collections import defaultdict
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
from holdfast.store.postgres.connection import Database
from holdfast.store.rows import (
    attempt_from,
    dead_letters_from,
    event_from,
    filter_parameters,
    groups_from,
    job_from,
    page_from,
)

_UNSUCCESSFUL = FINISHED - {JobStatus.COMPLETE}
_WAITING = frozenset({JobStatus.UPLOADED, JobStatus.QUEUED})


async def get(database: Database, job_id: str, now: float | None) -> Job | None:
    """Return one job with its arguments."""
    rows = await database.rows("read_job", id=job_id, now=now)
    return job_from(rows[0][:-1], rows[0][-1]) if rows else None


async def list_jobs(
    database: Database, where: JobFilter, cursor: str | None, limit: int, now: float | None
) -> Page:
    """Return jobs, newest first."""
    (before,) = cursors.decode(cursor, 1) if cursor is not None else (cursors.NEWEST,)
    rows = await database.rows(
        _query_for(where), **_parameters(where), before=int(before), limit=limit + 1, now=now
    )
    return page_from(rows, limit)


def _query_for(where: JobFilter) -> str:
    """Choose the index that leaves the least to look at."""
    statuses = set(where.statuses)
    if where.id is not None:
        return "read_jobs_by_id"
    if where.owner is not None:
        return "read_jobs_of_owner"
    failed = where.error_code or where.error_text or where.error_group
    if failed or (statuses and statuses <= _UNSUCCESSFUL):
        return "read_jobs_unsuccessful"
    if statuses and statuses <= _WAITING:
        return "read_jobs_waiting"
    if statuses and not statuses & FINISHED:
        return "read_jobs_unfinished"
    return "read_jobs"


def _parameters(where: JobFilter) -> dict[str, Any]:
    return {
        **filter_parameters(where),
        "statuses": [str(status) for status in where.statuses] or None,
        "kinds": list(where.kinds) or None,
    }


async def dead_letters(
    database: Database, where: JobFilter, cursor: str | None, limit: int
) -> tuple[tuple[DeadLetter, ...], str | None]:
    """Return dead letters, newest failure first."""
    start = (1e300, cursors.NEWEST)
    before_at, before = start if cursor is None else cursors.decode(cursor, 2)
    rows = await database.rows(
        "read_dead_letters",
        **_parameters(where),
        before_at=float(before_at),
        before=int(before),
        limit=limit + 1,
        now=None,
    )
    return dead_letters_from(rows, limit)


async def dead_letter_groups(database: Database) -> tuple[DeadLetterGroup, ...]:
    """Return the dead letters by group."""
    return groups_from(await database.rows("read_dead_letter_groups"))


async def events(database: Database, job_id: str) -> tuple[JobEvent, ...]:
    """Return a job's history."""
    return tuple(map(event_from, await database.rows("read_events", id=job_id)))


async def changes_since(
    database: Database, sequence: int, owner: str | None, limit: int
) -> tuple[JobEvent, ...]:
    """Return events after `sequence`."""
    rows = await database.rows("read_changes", sequence=sequence, owner=owner, limit=limit)
    return tuple(map(event_from, rows))


async def has_changes(database: Database, sequence: int) -> bool:
    """Say whether `changes_since` would return something."""
    return bool((await database.rows("read_has_changes", sequence=sequence))[0][0])


async def last_sequence(database: Database) -> int:
    """Return the sequence up to which everything is known."""
    return int((await database.rows("read_last_sequence"))[0][0])


async def attempts(database: Database, job_id: str) -> tuple[Attempt, ...]:
    """Return a job's attempts, the one under way last."""
    rows = await database.rows("read_attempts", id=job_id)
    return tuple(attempt_from(job_id, row) for row in rows)


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
