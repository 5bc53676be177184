"""Create a single job without a dedup key: one round trip, its notification included."""

from typing import Any

import asyncpg

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import StoreError
from holdfast.store.postgres.connection import Database
from holdfast.store.postgres.enqueue import check_texts
from holdfast.store.postgres.lanes import Lanes


async def enqueue_one(
    database: Database, lanes: Lanes, job: NewJob, now: float | None, payload: str | None
) -> bool | None:
    """Create a job without a dedup key.

    Returns:
        Whether the notification `payload` was sent with it; None if its id is taken.
    """
    while True:
        given = await _parameters(lanes, job)
        try:
            created = await database.write("enqueue_one", **given, now=now, payload=payload)
        except StoreError as error:
            if isinstance(error.__cause__, asyncpg.UniqueViolationError):
                return None
            check_texts([job])
            too_much = isinstance(error.__cause__, asyncpg.ProgramLimitExceededError)
            if payload is None or not too_much:
                raise
            payload = None  # the server's queue of notifications may be full: it is only a hint
        else:
            if created:
                return bool(created[0][0])
            lanes.forget()


async def _parameters(lanes: Lanes, job: NewJob) -> dict[str, Any]:
    """Return `job` as the parameters of `enqueue_one`."""
    lane = (job.queue, job.downstream or "", job.kind)
    number = lanes.known_ids.get(lane)
    return {
        "lane": (await lanes.ids([lane]))[lane] if number is None else number,
        "queue": job.queue,
        "downstream": lane[1],
        "kind": job.kind,
        "id": job.id,
        "status": job.status,
        "arguments": job.arguments,
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "run_at": job.run_at,
        "deadline": job.deadline_at,
        "owner": job.owner,
        "meta": job.meta,
    }
