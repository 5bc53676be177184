"""Which query lists jobs, and the counters."""

from collections import defaultdict

from holdfast.jobs.model import FINISHED, JobStatus
from holdfast.jobs.views import JobFilter, LaneCounts, OutcomeCounts, Stats
from holdfast.store.postgres.connection import Database
from holdfast.store.row_mapping import oldest_from

_UNSUCCESSFUL = FINISHED - {JobStatus.COMPLETE}
_WAITING = frozenset({JobStatus.UPLOADED, JobStatus.QUEUED})


def list_query(where: JobFilter) -> str:
    """Choose the query whose index leaves the fewest rows."""
    statuses = set(where.statuses)
    if where.id is not None:
        return "read_jobs_of_id"
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


async def stats(database: Database) -> Stats:
    """Return the counters."""
    counted: dict[str, dict[tuple[str, str, str], int]] = defaultdict(dict)
    for family, a, b, c, n in await database.rows("count_read"):
        if n:
            counted[family][a, b, c] = n
    by_lane: dict[str, dict[str, int]] = defaultdict(dict)
    for (lane, counter, _), n in counted["lane"].items():
        by_lane[lane][counter] = n
    lanes = [
        LaneCounts(queue, downstream or None, kind, **by_lane[str(number)])
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
        dead_letters=sum(counted["dead"].values()),
        **oldest_from(await database.rows("read_oldest_ready")),
    )
