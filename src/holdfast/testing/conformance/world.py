"""The argument of a fact: a store, a second handle on its database, and the time."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.record import (
    Admission,
    CallReport,
    DownstreamRecord,
    DownstreamSettings,
    TrialRetry,
    Verdict,
)
from holdfast.jobs.model import (
    Claim,
    Completed,
    Enqueued,
    EventName,
    Failed,
    Finished,
    Job,
    JobError,
    Lease,
    NewJob,
    Outcome,
    Retry,
)
from holdfast.jobs.owner_limits import NO_LIMITS, OwnerLimits
from holdfast.jobs.store_port import ClaimRequest, Extended, Store, TickResult
from holdfast.jobs.views import LaneCounts
from holdfast.resilience.policy import BreakerPolicy

BROKEN = JobError(ErrorCode.GW_5XX, "the gateway answered 502")
"""An ordinary error."""

LEASE = 60.0
"""Seconds that the leases of these facts last."""

Fact = Callable[["World"], Awaitable[None]]

FACTS: list[Fact] = []
"""Every fact of the suite, in the order of its files."""


def fact(check: Fact) -> Fact:
    """Add `check` to the suite. Its name states what holds."""
    FACTS.append(check)
    return check


class Tables(Protocol):
    """The tables and views of a store's database, bypassing the store."""

    @property
    def violations(self) -> tuple[type[Exception], ...]:
        """The exceptions that `set_columns` raises if the database refuses."""
        ...

    async def set_columns(self, job_id: str, columns: Mapping[str, Any]) -> None:
        """Set columns of one job's row.

        Names are those of `Job`'s fields, and `error_code`, `error_message`, `error_group` (the
        normalised message) and `ready` (whether a queued job is in its lane).
        """
        ...

    async def shown_held_by(self, job_id: str) -> str | None:
        """Return what holds the job by the view for people, whose `held` must agree."""
        ...

    async def kill_worker(self, worker_id: str) -> None:
        """Register a worker in another process, and kill that process.

        Return when the database knows that it has ended.
        """
        ...


@dataclass(slots=True)
class World:
    """A database used by one fact only.

    Args:
        store: a store that is open.
        open_second: open another handle on the same database; the creator of the world closes it.
        tables: the tables of that database.
        now: epoch seconds; a fact advances it with `pass_time`.
        owner_limits: those of owners without limits of their own.
    """

    store: Store
    open_second: Callable[[], Awaitable[Store]]
    tables: Tables
    now: float = 1_800_000_000.0
    owner_limits: OwnerLimits = NO_LIMITS

    def pass_time(self, seconds: float) -> None:
        """Advance `now` by `seconds`."""
        self.now += seconds

    async def add(self, job_id: str, kind: str = "work", **fields: Any) -> Enqueued:
        """Enqueue one job."""
        (answer,) = await self.store.enqueue([NewJob(job_id, kind, **fields)], now=self.now)
        return answer

    async def claim(
        self,
        limit: int = 10,
        worker: str = "worker-1",
        *,
        queues: Sequence[str] = ("default",),
        kinds: Mapping[str, int | None] | None = None,
        store: Store | None = None,
    ) -> tuple[Claim, ...]:
        """Claim up to `limit` jobs."""
        result = await self.tick([], limit, worker, queues=queues, kinds=kinds, store=store)
        return result.claims

    async def tick(
        self,
        finished: Sequence[Finished],
        limit: int = 0,
        worker: str = "worker-1",
        *,
        queues: Sequence[str] = ("default",),
        kinds: Mapping[str, int | None] | None = None,
        store: Store | None = None,
        with_lost_workers: bool = False,
    ) -> TickResult:
        """Report `finished` and claim up to `limit` jobs."""
        known = {"work": None, "other": None} if kinds is None else kinds
        request = ClaimRequest(
            limit, tuple(queues), known, LEASE, owner_limits=self.owner_limits,
            with_lost_workers=with_lost_workers,
        )  # fmt: skip
        return await (store or self.store).tick(worker, finished, request, now=self.now)

    async def claim_one(self, worker: str = "worker-1") -> Claim:
        """Claim exactly one job; there must be one."""
        (claim,) = await self.claim(1, worker)
        return claim

    async def start(self, job_id: str, *, worker: str = "worker-1", **fields: Any) -> Claim:
        """Enqueue and claim one job; nothing else may be claimable."""
        await self.add(job_id, **fields)
        claim = await self.claim_one(worker)
        assert claim.job_id == job_id
        return claim

    async def extend(self, leases: Sequence[Lease], seconds: float = LEASE) -> Extended:
        """Send one heartbeat for `leases`."""
        return await self.store.heartbeats().extend(leases, seconds, now=self.now)

    async def finish(
        self,
        claim: Claim,
        outcome: Outcome,
        verdict: Verdict | None = None,
        *,
        asked: float = 0.0,
        **details: Any,
    ) -> TickResult:
        """Report the outcome of one attempt and its verdict on the downstream.

        `asked` are the seconds that the downstream's answer asked to wait.
        """
        report = None
        if verdict is not None and claim.permit is not None and claim.downstream is not None:
            retry = None
            if claim.admission is Admission.TRIAL and isinstance(outcome, Retry):
                retry = TrialRetry(
                    claim.job_id,
                    claim.lease.token,
                    self.now + outcome.after,
                    self.now + asked if asked else 0.0,
                )
            report = CallReport(claim.downstream, claim.permit, verdict, retry=retry)
        return await self.store.tick(
            claim.lease.worker_id,
            [Finished(claim.lease, outcome, report=report, **details)],
            now=self.now,
        )

    async def run(self, job_id: str, outcome: Outcome | None = None, **fields: Any) -> Job:
        """Enqueue, claim and finish one job; nothing else may be claimable."""
        await self.finish(await self.start(job_id, **fields), outcome or Completed('"done"'))
        return await self.job(job_id)

    async def job(self, job_id: str) -> Job:
        """Return a job that must exist."""
        job = await self.store.get(job_id, now=self.now)
        assert job is not None, f"there is no job {job_id}"
        return job

    async def event_names(self, job_id: str) -> list[EventName]:
        """Return what happened to a job, oldest first."""
        return [event.name for event in await self.store.events(job_id)]

    async def downstream(self, name: str = "gateway") -> DownstreamRecord:
        """Return the record of a downstream that must exist."""
        record = await self.store.downstream(name)
        assert record is not None, f"there is no downstream {name}"
        return record

    async def lane(self, kind: str = "work") -> LaneCounts:
        """Return the counts of the only lane of `kind`."""
        stats = await self.store.stats()
        (lane,) = [lane for lane in stats.lanes if lane.kind == kind]
        return lane

    async def total(self, name: str) -> int:
        """Return one of the monotonic totals."""
        return (await self.store.stats()).totals.get(name, 0)

    async def declare(self, name: str = "gateway", **settings: Any) -> None:
        """Declare a downstream that opens at the first failure, for 30 s, with two trial calls."""
        policy = BreakerPolicy(consecutive_failures=1, open_for=30.0, trial_calls=2)
        settings.setdefault("breaker", policy)
        settings.setdefault("ramp_seconds", 0.0)
        await self.store.declare_downstreams([DownstreamSettings(name, **settings)], now=self.now)

    async def open_gateway(self, waiting: int = 5, **settings: Any) -> None:
        """Declare `gateway`, open its breaker, and enqueue `waiting` jobs."""
        await self.declare(**settings)
        claim = await self.start("first", downstream="gateway")
        await self.finish(claim, Failed(BROKEN), Verdict.FAILURE)
        for number in range(waiting):
            await self.add(f"job-{number}", downstream="gateway")


def ids(claims: Sequence[Claim]) -> list[str]:
    """Return the ids of `claims`, in order."""
    return [claim.job_id for claim in claims]


@contextmanager
def refusal(what: str, words: str = "", *, kind: type[Exception] = ValueError) -> Iterator[None]:
    """Require that the block raises a `kind` with `words` in it; `what` names the cause."""
    try:
        yield
    except kind as error:
        assert words in str(error), error  # noqa: PT017 - facts run without pytest
    else:
        raise AssertionError(f"{what} was accepted")
