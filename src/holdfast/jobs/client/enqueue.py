"""Turn requests into stored jobs: validate all of them, then write once."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import structs

from holdfast.clock import Clock
from holdfast.ids import new_ids
from holdfast.jobs.client.owner_control import OwnerControl
from holdfast.jobs.client.requests import JobHandle, JobRequest, check_rules, needs_now, prepare
from holdfast.jobs.client.store_time import StoreTime
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.declare.validation import shown
from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.exceptions import TooManyJobs
from holdfast.jobs.model import Enqueued, NewJob
from holdfast.jobs.store_port import Store, StoreError, StoreUnavailable
from holdfast.resilience import checks
from holdfast.trace_port import Tracing, with_trace

_log = logging.getLogger("holdfast.engine")

_DECLARE_INTERVAL = 1.0
"""Seconds between two tries to declare a downstream, and the longest wait of `close`."""
_MOST_DECLARED = 50_000
"""Downstreams that are remembered as declared; one more, and all are forgotten first."""


class TransactionalEnqueue(Protocol):
    """Enqueue in the caller's transaction."""

    async def enqueue_on(self, connection: object, jobs: Sequence[NewJob]) -> tuple[Enqueued, ...]:
        """Create `jobs` on `connection`; they exist once its transaction commits.

        Raises:
            TypeError: `connection` is not supported; the message lists the supported types.
            ValueError: it has no open transaction.
        """
        ...


class Enqueuer:
    """Validate and enqueue requests.

    Args:
        payload_limit: most bytes of JSON in one job's arguments.
        transactional: enqueues on the caller's `connection=`.
        owners: refuses jobs of owners who have as many as they may.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        *,
        payload_limit: int,
        transactional: TransactionalEnqueue | None,
        owners: OwnerControl | None = None,
    ) -> None:
        checks.whole("payload_limit", payload_limit, at_least=1)
        self._store = store
        self._registry = registry
        self._clock = clock
        self._payload_limit = payload_limit
        self._transactional = transactional
        self._owners = owners
        self._time = StoreTime(store, clock)
        self.tracing: Tracing | None = None
        self._declared: set[str] = set()
        self._later: set[asyncio.Task[None]] = set()

    async def declare(self) -> None:
        """Declare in the store the downstreams that have no `key`."""
        found = self._registry.downstreams().values()
        settings = [each.settings() for each in found if each.key is None]
        if settings:
            await self._store.declare_downstreams(settings)
        self._declared = {each.name for each in settings}

    async def close(self) -> None:
        """Wait a moment for pending declarations, then cancel them."""
        if self._later:
            await asyncio.wait(self._later, timeout=_DECLARE_INTERVAL)
            for task in self._later:
                task.cancel()

    async def enqueue(
        self, requests: Iterable[JobRequest[Any, Any]], connection: object = None
    ) -> tuple[JobHandle[Any], ...]:
        """Create jobs, all or none; see `Engine.enqueue_many`."""
        asked = self._with_kinds(requests)
        if not asked:
            return ()
        if self.tracing is None:
            return await self._enqueue(asked, connection, {})
        with self.tracing.sending(asked[0][1].name, len(asked)) as headers:
            return await self._enqueue(asked, connection, headers)

    async def _enqueue(
        self,
        asked: Sequence[tuple[JobRequest[Any, Any], JobKind]],
        connection: object,
        headers: Mapping[str, str],
    ) -> tuple[JobHandle[Any], ...]:
        now = 0.0
        if any(needs_now(request, kind) for request, kind in asked):
            now = await self._time.now()
        ids = new_ids(len(asked), self._clock.wall())
        jobs = [
            prepare(request, kind, new_id, now, self._payload_limit)
            for (request, kind), new_id in zip(asked, ids, strict=True)
        ]
        if headers:
            jobs = [_traced(job, headers) for job in jobs]
        if len(jobs) > 1:
            check_rules(jobs)
        most: dict[str, int] = {}
        if self._owners is not None:
            most = await self._check_limits(self._owners, asked, jobs)
        new = self._undeclared(asked, jobs)
        if connection is None:
            if new:
                await self._store.declare_downstreams(new)
            outcomes = await self._store.enqueue(jobs, most=most)
        elif self._transactional is None:
            raise TypeError("connection= needs an engine that was created with a URL")
        else:
            outcomes = await self._transactional.enqueue_on(connection, jobs)
            if new:
                self._declare_later(new)
        if new:
            self._remember(new)
        return tuple(
            [
                JobHandle(outcome.id, job.kind, outcome.created)
                for outcome, job in zip(outcomes, jobs, strict=True)
            ]
        )

    async def _check_limits(
        self,
        owners: OwnerControl,
        asked: Sequence[tuple[JobRequest[Any, Any], JobKind]],
        jobs: Sequence[NewJob],
    ) -> dict[str, int]:
        """Refuse jobs of owners who have as many as they may; repeats create none.

        Returns the limits that the store must check again where it creates the jobs, by owner.
        """
        counted = [
            request.owner
            for request, _ in asked
            if request.owner is not None and not request.beyond_limits
        ]
        if not counted:
            return {}
        most: dict[str, int] = {}
        for owner, n in Counter(counted).items():
            try:
                limit = await owners.check_jobs(owner, n)
            except TooManyJobs:
                new = await self._count_new(owner, asked, jobs)
                if new == n:
                    raise
                limit = await owners.check_jobs(owner, new)
            if limit is not None:
                most[owner] = limit
        # Where a call also creates jobs beyond its owner's limit, the store cannot tell them apart.
        beyond = {request.owner for request, _ in asked if request.beyond_limits} if most else ()
        return {owner: limit for owner, limit in most.items() if owner not in beyond}

    async def _count_new(
        self,
        owner: str | None,
        asked: Sequence[tuple[JobRequest[Any, Any], JobKind]],
        jobs: Sequence[NewJob],
    ) -> int:
        """Count the jobs of `owner` that would be created; never too few."""
        counted = [
            job
            for (request, _), job in zip(asked, jobs, strict=True)
            if job.owner == owner and not request.beyond_limits
        ]
        repeated = await self._store.repeated_jobs(counted)
        # Of those with the same key, and of those with the same id and no key, one is created.
        return len(
            {
                job.id if job.dedup_key is None else (job.kind, job.dedup_key)
                for job, is_repeated in zip(counted, repeated, strict=True)
                if not is_repeated
            }
        )

    def prepared(self, request: JobRequest[Any, Any], now: float) -> NewJob:
        """Return the job to store for `request`; `now` is the store's time in epoch seconds.

        Safe to call from any thread. A downstream that is not declared yet is declared by the first
        worker that claims the job.

        Raises:
            UnknownKind, ValidationError, PayloadTooLarge, TypeError: see `Engine.enqueue`.
        """
        (new_id,) = new_ids(1, self._clock.wall())
        job = prepare(request, self._kind_of(request), new_id, now, self._payload_limit)
        return job if self.tracing is None else _traced(job, self.tracing.current_headers())

    def _with_kinds(
        self, requests: Iterable[JobRequest[Any, Any]]
    ) -> list[tuple[JobRequest[Any, Any], JobKind]]:
        """Return each request with its kind, looked up once per run of equal jobs."""
        asked: list[tuple[JobRequest[Any, Any], JobKind]] = []
        last: object = None
        kind: JobKind | None = None
        for request in requests:
            if not isinstance(request, JobRequest):
                raise TypeError(f"a request must be a JobRequest, got {shown(request)}")
            if kind is None or request.job is not last:
                kind, last = self._kind_of(request), request.job
            asked.append((request, kind))
        return asked

    def _kind_of(self, request: JobRequest[Any, Any]) -> JobKind:
        if not isinstance(request.job, JobFunction | str):
            raise TypeError(f"job must be a declared job or a kind's name, got {request.job!r}")
        return self._registry.kind(request.kind_name)

    def _undeclared(
        self, asked: Sequence[tuple[JobRequest[Any, Any], JobKind]], jobs: Sequence[NewJob]
    ) -> tuple[DownstreamSettings, ...]:
        """Return the downstreams that may not be declared in the store yet."""
        new = {
            job.downstream: kind.downstream.settings(job.downstream)
            for (_, kind), job in zip(asked, jobs, strict=True)
            if kind.downstream is not None
            and job.downstream is not None
            and job.downstream not in self._declared
        }
        return tuple(new.values())

    def _remember(self, declared: Sequence[DownstreamSettings]) -> None:
        if len(self._declared) + len(declared) > _MOST_DECLARED:
            self._declared.clear()
        self._declared.update(settings.name for settings in declared)

    def _declare_later(self, new: Sequence[DownstreamSettings]) -> None:
        # The caller's open transaction may block every other write until it ends: waiting for
        # ours here would be a deadlock.
        task = asyncio.create_task(self._declare_with_retries(new))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _declare_with_retries(self, new: Sequence[DownstreamSettings]) -> None:
        while True:
            try:
                await self._store.declare_downstreams(new)
            except StoreUnavailable:
                await self._clock.sleep_async(_DECLARE_INTERVAL)
            except StoreError as error:
                _log.warning("downstreams could not be declared: %s", error)
                return
            else:
                return


def _traced(job: NewJob, headers: Mapping[str, str]) -> NewJob:
    """Return `job` with the headers of its trace in its meta."""
    return structs.replace(job, meta=with_trace(job.meta, headers))
