"""Change jobs on request of people, handlers and heartbeats."""

import json
from collections.abc import Sequence
from typing import Any

from holdfast.jobs.model import JobError, Lease
from holdfast.jobs.store_port import Change, Extended
from holdfast.jobs.views import normalise_error
from holdfast.store.postgres.connection import Connection, Database, rows
from holdfast.store.text import clean, clean_or_none


async def submit(database: Database, job_id: str, now: float | None) -> Change:
    """Move an uploaded job to queued."""
    return await _change(database, "control_submit", id=job_id, now=now)


async def reject(database: Database, job_id: str, error: JobError, now: float | None) -> Change:
    """Move an uploaded job to failed."""
    message = clean(error.message)
    told = [str(error.code), message, normalise_error(message)]
    return await _change(database, "control_reject", id=job_id, error=told, now=now)


async def cancel(database: Database, job_id: str, now: float | None) -> Change:
    """Cancel a job that does not run, or ask its worker to."""
    return await _change(database, "control_cancel", id=job_id, now=now)


async def expedite(database: Database, job_id: str, now: float | None) -> Change:
    """Let a queued job that waits for its time start at once."""
    return await _change(database, "control_expedite", id=job_id, now=now)


async def _change(database: Database, query: str, **parameters: Any) -> Change:
    found = await database.write(query, **parameters)
    return Change(found[0][0])


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
        lease=lease_seconds,
        now=now,
    )
    held = {(row["id"], row["token"]) for row in found}
    return Extended(
        lost=tuple(lease for lease in leases if (lease.job_id, lease.token) not in held),
        cancel_requested=tuple(row["id"] for row in found if row["cancel_requested"]),
    )
