"""Which query lists jobs, and the counters."""

from holdfast.jobs.model import FINISHED, JobStatus
from holdfast.jobs.views import JobFilter, LaneCounts, OutcomeCounts, Stats
from holdfast.store.row_mapping import oldest_from
from holdfast.store.sqlite.read_pool import Snapshot

_UNSUCCESSFUL = FINISHED - {JobStatus.COMPLETE}


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
    if statuses and not statuses & FINISHED:
        return "read_jobs_unfinished"
    if len(where.kinds) == 1:
        return "read_jobs_of_kind"
    return "read_jobs"


def stats(snapshot: Snapshot) -> Stats:
    """Return the counters."""
    return Stats(
        lanes=tuple(LaneCounts(*row) for row in snapshot.rows("read_lanes")),
        outcomes=tuple(
            OutcomeCounts(kind, JobStatus(status), attempts_made, count)
            for kind, status, attempts_made, count in snapshot.rows("read_outcomes")
        ),
        totals=dict(snapshot.rows("read_totals")),
        dead_letters=snapshot.rows("read_dead_count")[0][0],
        **oldest_from(snapshot.rows("read_oldest_ready")),
    )
