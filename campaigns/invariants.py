"""What must hold in the tables of a PostgreSQL store after all jobs have finished."""

from collections import Counter

import asyncpg

from holdfast.jobs.store_port import Store

_NONE_EXPECTED = {
    "jobs with a lease": "SELECT id FROM holdfast.jobs WHERE worker_id IS NOT NULL",
    "jobs without their lane": """
        SELECT jobs.id FROM holdfast.jobs LEFT JOIN holdfast.lanes ON lanes.id = jobs.lane
        WHERE lanes.kind IS DISTINCT FROM jobs.kind""",
    "jobs without their id": """
        SELECT jobs.id FROM holdfast.jobs
        LEFT JOIN holdfast.ids ON ids.id = jobs.id AND ids.job = jobs.seq WHERE ids.id IS NULL""",
    "ids without their job": """
        SELECT ids.id FROM holdfast.ids
        LEFT JOIN holdfast.jobs ON jobs.seq = ids.job WHERE jobs.id IS DISTINCT FROM ids.id""",
    "twins": """
        SELECT kind || ' ' || dedup_key FROM holdfast.jobs
        WHERE dedup_key IS NOT NULL AND status NOT IN ('failed', 'cancelled')
        GROUP BY kind, dedup_key HAVING count(*) > 1""",
    "jobs without their last event": """
        SELECT jobs.id FROM holdfast.jobs
        LEFT JOIN holdfast.history ON history.sequence = jobs.last_event
        WHERE jobs.seq <> ALL (coalesce(history.jobs, '{}'))""",
    "completed jobs that retention would not find": """
        SELECT jobs.id FROM holdfast.jobs
        LEFT JOIN holdfast.completed
            ON completed.kind = jobs.kind AND completed.page = jobs.last_event
        WHERE jobs.status = 'complete' AND completed.page IS NULL""",
    "failed jobs that are no dead letters": """
        SELECT id FROM holdfast.jobs WHERE status = 'failed' AND dead_letter IS NULL""",
    "requests to cancel": "SELECT job::text FROM holdfast.cancel_requests",
    "events beyond their sequence": """
        SELECT history.sequence::text FROM holdfast.history
        WHERE history.sequence > (SELECT last_value FROM holdfast.event_sequence) + 10000""",
    "open transactions": """
        SELECT application_name || ' ' || query FROM pg_stat_activity
        WHERE state LIKE 'idle in transaction%'""",
    "session locks": "SELECT mode FROM pg_locks WHERE locktype = 'advisory'",
}
_PLACES = """
    SELECT jobs.kind, jobs.status::text, lanes.queue, lanes.downstream, count(*)
    FROM holdfast.jobs JOIN holdfast.lanes ON lanes.id = jobs.lane GROUP BY 1, 2, 3, 4"""
_SHOWN = 5


async def violated(store: Store, url: str) -> list[str]:
    """Return a finding for each invariant that does not hold; `url` is the server's address.

    No worker may run, and all jobs must have finished.
    """
    connection = await asyncpg.connect(url)
    try:
        findings = []
        for name, query in _NONE_EXPECTED.items():
            found = [row[0] for row in await connection.fetch(query)]
            if found:
                findings.append(f"{len(found)} {name}: {found[:_SHOWN]}")
        counted = Counter({tuple(row[:4]): row[4] for row in await connection.fetch(_PLACES)})
        return findings + await _miscounted(store, counted)
    finally:
        await connection.close()


async def _miscounted(store: Store, counted: Counter[tuple[str, str, str, str]]) -> list[str]:
    """Compare the maintained counters with the jobs."""
    stats = await store.stats()
    shown: Counter[tuple[str, str, str, str]] = Counter()
    for lane in stats.lanes:
        for status in ("complete", "failed", "cancelled", "uploaded", "processing"):
            shown[lane.kind, status, lane.queue, lane.downstream or ""] = getattr(lane, status)
        waiting = lane.ready + lane.scheduled
        shown[lane.kind, "queued", lane.queue, lane.downstream or ""] = waiting
    wrong = sorted(
        place for place in shown.keys() | counted.keys() if shown[place] != counted[place]
    )
    findings = [
        f"the counter of {place} is {shown[place]}, there are {counted[place]}"
        for place in wrong[:_SHOWN]
    ]
    failed = sum(number for place, number in counted.items() if place[1] == "failed")
    if stats.dead_letters != failed:
        findings.append(f"{stats.dead_letters} dead letters are counted, {failed} jobs failed")
    return findings
