"""Delete jobs whatever their state, and everything of an owner."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.clock import Clock
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.client.owner_control import OwnerControl
from holdfast.jobs.client.queries import id_of, several
from holdfast.jobs.client.webhook_control import WebhookControl
from holdfast.jobs.declare.job_request import JobId
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.declare.webhook_job import log_owner
from holdfast.jobs.exceptions import InvalidState, UnknownJob
from holdfast.jobs.model import Job
from holdfast.jobs.views import JobFilter, Page, Stats

_BATCH = 500
_POLL = 0.1
"""Seconds between two looks at jobs that were asked to stop."""


class JobsStillRun(HoldfastError):
    """Jobs that were asked to stop are still running; what was not deleted is left as it is.

    Attributes:
        job_ids: which.
    """

    code = ErrorCode.INVALID_STATE

    def __init__(self, job_ids: tuple[str, ...]) -> None:
        super().__init__(
            f"{len(job_ids)} jobs were asked to stop and still run, such as {job_ids[0]}; call "
            "this again when they have ended"
        )
        self.job_ids = job_ids


class UndeclaredKinds(HoldfastError):
    """An owner has jobs that no app declares, whose files would stay; nothing was deleted.

    Attributes:
        kinds: the names of their kinds.
    """

    code = ErrorCode.INVALID_STATE

    def __init__(self, owner: str, kinds: tuple[str, ...]) -> None:
        super().__init__(
            f"{owner!r} has jobs that no app declares, whose files would stay: {', '.join(kinds)}"
        )
        self.kinds = kinds


@dataclass(frozen=True, slots=True)
class Erased:
    """What was deleted of an owner.

    Args:
        owner: whose it was.
        jobs: how many jobs, with their history and the files that their kinds delete.
        webhooks: how many webhooks, with the log of their deliveries.
        data: how much of what each app keeps, as "app.what": `{"grading.submissions": 3}`.
    """

    owner: str
    jobs: int = 0
    webhooks: int = 0
    data: Mapping[str, int] = field(default_factory=dict)


class ErasableClient(Protocol):
    """The methods of a client that erasing uses."""

    clock: Clock
    registry: Registry
    webhooks: WebhookControl
    owners: OwnerControl

    async def get(self, job: JobId) -> Job | None:
        """Return a job."""
        ...

    async def list(self, where: JobFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Return jobs, newest first."""
        ...

    async def stats(self) -> Stats:
        """Return the maintained counters."""
        ...

    async def cancel(self, job: JobId) -> Job:
        """Cancel an unfinished job."""
        ...

    async def delete(self, jobs: JobId | Iterable[JobId]) -> tuple[str, ...]:
        """Delete finished jobs."""
        ...


async def purge(
    client: ErasableClient, jobs: JobId | Iterable[JobId], timeout: float
) -> tuple[str, ...]:
    """Delete jobs of any status; see `Client.purge`."""
    wanted = [id_of(job) for job in several(jobs)]
    until, deleted = client.clock.monotonic() + timeout, list[str]()
    for start in range(0, len(wanted), _BATCH):
        batch = wanted[start : start + _BATCH]
        finished = set(await client.delete(batch))
        deleted += finished
        left = [job_id for job_id in batch if job_id not in finished]
        for job_id in left:
            with contextlib.suppress(UnknownJob, InvalidState):
                await client.cancel(job_id)
        while left:
            deleted += await client.delete(left)
            left = [job_id for job_id in left if await client.get(job_id) is not None]
            if left and client.clock.monotonic() >= until:
                raise JobsStillRun(tuple(left))
            if left:
                await client.clock.sleep_async(_POLL)
    return tuple(deleted)


async def count_jobs(client: ErasableClient, owner: str) -> int:
    """Return how many jobs `erase` would delete; it lists them all.

    Raises:
        UndeclaredKinds: no app declares the kind of one of them.
    """
    await _check_kinds(client, owner)
    count, cursor = 0, None
    while True:
        page = await client.list(JobFilter(owner=owner), cursor=cursor, limit=_BATCH)
        count += len(page.jobs)
        cursor = page.next_cursor
        if cursor is None:
            return count


async def erase(client: ErasableClient, owner: str, timeout: float) -> Erased:
    """Delete everything of `owner`; see `Client.erase`."""
    await _check_kinds(client, owner)
    until = client.clock.monotonic() + timeout
    webhooks = await client.webhooks.list(owner)
    for webhook in webhooks:
        # First, so that they are not notified of the jobs that are cancelled here.
        await client.webhooks.remove(webhook.id)
        await _purge_of(client, log_owner(webhook.id), until)
    jobs = await _purge_of(client, owner, until)
    data: dict[str, int] = {}
    for app in client.registry.apps:
        if app.on_erase is not None:
            found = await app.on_erase(client, owner)
            data |= {f"{app.name}.{what}": count for what, count in found.items()}
    await client.owners.forget(owner)
    # What was enqueued for the owner since, also by the apps.
    jobs += await _purge_of(client, owner, until)
    return Erased(owner, jobs, len(webhooks), data)


async def _check_kinds(client: ErasableClient, owner: str) -> None:
    """Refuse an owner with jobs that no app declares; without such jobs, no job is read."""
    stored = {lane.kind for lane in (await client.stats()).lanes}
    undeclared = sorted(kind for kind in stored if client.registry.find(kind) is None)
    found = [
        kind
        for kind in undeclared
        if (await client.list(JobFilter(owner=owner, kinds=(kind,)), limit=1)).jobs
    ]
    if found:
        raise UndeclaredKinds(owner, tuple(found))


async def _purge_of(client: ErasableClient, owner: str, until: float) -> int:
    count = 0
    while page := (await client.list(JobFilter(owner=owner), limit=_BATCH)).jobs:
        left = max(0.0, until - client.clock.monotonic())
        count += len(await purge(client, page, left))
    return count
