"""Change jobs on request of people, handlers and heartbeats."""

import json
from collections.abc import Sequence

from holdfast.jobs.model import Lease
from holdfast.jobs.store_port import Change, Extended
from holdfast.store.postgres.connection import Connection, Database, rows
from holdfast.store.text import clean_or_none


async def retry(
    database: Database, job_ids: Sequence[str], now: float | None
) -> tuple[Change, ...]:
    """Put failed jobs back in the queue."""
    if not job_ids:
        return ()
    found = await database.write("control_retry", ids=list(job_ids), now=now)
    return tuple(map(Change, found[0][0]))


async def discard(database: Database, job_ids: Sequence[str], now: float | None) -> int:
    """Take jobs out of the dead letters."""
    found = await database.write("control_discard", ids=list(job_ids), now=now)
    return int(found[0][0])


async def progress(
    database: Database,
    lease: Lease,
    share: float | None,
    note: str | None,
    *,
    record: bool,
    now: float | None,
) -> bool:
    """Store how far a job is, under its lease."""
    text = clean_or_none(note)
    meta = json.dumps({"progress": share, "note": text}) if record else None
    found = await database.write(
        "control_progress",
        id=lease.job_id,
        token=lease.token,
        worker=lease.worker_id,
        progress=share,
        note=text,
        meta=meta,
        now=now,
    )
    return bool(found[0][0])


async def extend(
    connection: Connection, leases: Sequence[Lease], lease_seconds: float, now: float | None
) -> Extended:
    """Let all `leases` last until `lease_seconds` from now, in one statement."""
    found = await rows(
        connection,
        "control_extend",
        ids=[lease.job_id for lease in leases],
        tokens=[lease.token for lease in leases],
        workers=[lease.worker_id for lease in leases],
        lease=lease_seconds,
        now=now,
    )
    held = {(row["id"], row["token"]) for row in found}
    return Extended(
        lost=tuple(lease for lease in leases if (lease.job_id, lease.token) not in held),
        cancel_requested=tuple(row["id"] for row in found if row["cancel_requested"]),
    )
