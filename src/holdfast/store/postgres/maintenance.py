"""Maintenance, each call on a bounded number of jobs."""

from collections.abc import Sequence

from holdfast.jobs.model import JobStatus
from holdfast.jobs.report_rules import LEASE_LOST
from holdfast.jobs.store_port import Deleted, FailedJob, Leadership, Rescued, RetentionRule
from holdfast.store.error_columns import error_columns
from holdfast.store.postgres.columns import TIMEOUT_COLUMNS
from holdfast.store.postgres.connection import Database
from holdfast.store.text import clean_or_none

_LEASE_LOST = error_columns(LEASE_LOST)


async def lead(
    database: Database, name: str, holder: str, seconds: float, now: float | None
) -> Leadership | None:
    """Become or stay the leader."""
    found = await database.write(
        "maintain_lead", name=name, holder=holder, seconds=seconds, now=now
    )
    return Leadership(name, holder, *found[0]) if found else None


async def resign(database: Database, name: str, holder: str) -> bool:
    """Release the leadership."""
    return bool(await database.write("maintain_resign", name=name, holder=holder))


async def rescue(database: Database, limit: int, now: float | None) -> Rescued:
    """Requeue, fail or cancel jobs whose leases have expired or whose workers are dead."""
    found = await database.write("maintain_rescue", limit=limit, error=_LEASE_LOST, now=now)
    ids: dict[str, list[str]] = {"queued": [], "failed": [], "cancelled": []}
    jobs = []
    for job_id, target, *known in found:
        ids[target].append(job_id)
        jobs.append(FailedJob(job_id, *known))
    return Rescued(tuple(ids["queued"]), tuple(ids["failed"]), tuple(ids["cancelled"]), tuple(jobs))


async def expire_deadlines(
    database: Database, limit: int, now: float | None
) -> tuple[FailedJob, ...]:
    """Fail unfinished jobs past their deadline."""
    found = await database.write(
        "maintain_expire_deadlines", limit=limit, timeout=TIMEOUT_COLUMNS, now=now
    )
    return tuple(FailedJob(*row) for row in found)


async def store_late_result(
    database: Database, job_id: str, token: int, result: str | None, now: float | None
) -> bool:
    """Keep a result that came after `TIMEOUT`."""
    found = await database.write(
        "finish_late", id=job_id, token=token, result=clean_or_none(result), now=now
    )
    return bool(found[0][0])


async def delete_finished(
    database: Database, rule: RetentionRule, limit: int, now: float | None
) -> tuple[Deleted, ...]:
    """Delete the oldest finished jobs that `rule` no longer keeps, with their history."""
    if not rule.status.finished:
        raise ValueError(f"only finished jobs can be deleted, not {rule.status} ones")
    found = await database.write(
        "maintain_delete_finished",
        kind=rule.kind,
        status=str(rule.status),
        max_age=rule.max_age,
        max_count=rule.max_count,
        limit=limit,
        now=now,
    )
    return tuple(
        Deleted(row["id"], rule.kind, rule.status, row["owner"], row["meta"], row["result"])
        for row in found
    )


async def delete_of_ids(database: Database, job_ids: Sequence[str]) -> tuple[Deleted, ...]:
    """Delete the finished jobs among `job_ids`, with their history."""
    found = await database.write("maintain_delete_of_ids", ids=list(job_ids))
    return tuple(
        Deleted(id_, kind, JobStatus(status), owner, meta, result)
        for id_, kind, status, owner, meta, result in found
    )
