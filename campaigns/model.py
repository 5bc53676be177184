"""Random operations on a store and on a model in memory: every answer must be the same.

With the same seed both stores get the same operations, so if both agree with the model they agree
with each other. Every operation is given its time, in whole seconds.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from campaigns.oracle import LEASE, ModelJob, Oracle
from campaigns.plan import CampaignOutcome, Plan
from campaigns.temporary_store import temporary_store
from holdfast.errors import ErrorCode
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    DeadLetterReason,
    Failed,
    Finished,
    Job,
    JobError,
    JobStatus,
    Lease,
    NewJob,
    Released,
    Retry,
)
from holdfast.jobs.store_port import ClaimRequest, Store

_ERROR = JobError(ErrorCode.GW_5XX, "the gateway answered 502")
_EPISODE = 200
"""Steps after which all jobs are finished and removed from the model, to keep it fast."""


class Disagreement(Exception):
    """The store's answer differs from the model's."""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    with temporary_store(plan.store, plan.folder) as target:
        return asyncio.run(_run(plan, target.store()))


async def _run(plan: Plan, store: Store) -> CampaignOutcome:
    outcome, steps = CampaignOutcome(), plan.pick(100_000, 1500)
    taken = 0
    async with store:
        walk = Walk(store, plan.rng())
        try:
            while taken < steps:
                await walk.step()
                taken += 1
                if taken % _EPISODE == 0:
                    await walk.start_episode(taken)
        except Disagreement as error:
            outcome.findings.append(f"step {taken}: {error}; steps before: {walk.trail[-8:]}")
    outcome.figures |= {"steps": taken, "jobs": walk.created, "claims": walk.claimed}
    return outcome


@dataclass(slots=True)
class Walk:
    """A random walk over one store and the model."""

    store: Store
    rng: random.Random
    oracle: Oracle = field(default_factory=Oracle)
    now: float = 1_800_000_000.0
    leases: list[Lease] = field(default_factory=list)
    trail: list[str] = field(default_factory=list)
    episode: int = 0
    created: int = 0
    claimed: int = 0

    async def step(self) -> None:
        """Take one random step; raise `Disagreement` if the answers differ."""
        steps: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (6, self._enqueue),
            (8, self._tick),
            (3, self._extend),
            (3, self._progress),
            (2, self._cancel),
            (2, self._retry),
            (1, self._expedite),
            (1, self._discard),
            (1, self._submit),
            (1, self._reject),
            (3, self._rescue),
            (3, self._pass_time),
            (3, self._compare),
        ]
        (chosen,) = self.rng.choices([what for _, what in steps], [w for w, _ in steps])
        await chosen()

    def _agree(self, what: str, expected: Any, got: Any) -> None:
        self.trail.append(what)
        del self.trail[:-20]
        if expected != got:
            raise Disagreement(f"{what}: expected {expected}, got {got}")

    def _some_id(self) -> str:
        """Return the id of a job, or in 5 % of the calls an unknown id."""
        if not self.oracle.jobs or self.rng.random() < 0.05:
            return "unknown"
        return self.rng.choice([*self.oracle.jobs])

    async def _enqueue(self) -> None:
        jobs = [self._new_job() for _ in range(self.rng.randint(1, 3))]
        answers = await self.store.enqueue(jobs, now=self.now)
        expected = [self.oracle.enqueue(job, self.now) for job in jobs]
        self.created += sum(created for _, created in expected)
        self._agree(
            f"enqueue {[job.id for job in jobs]}",
            expected,
            [(answer.id, answer.created) for answer in answers],
        )

    def _new_job(self) -> NewJob:
        rng = self.rng
        again = self.oracle.jobs and rng.random() < 0.05
        number = len(self.oracle.jobs)
        own = f"e{self.episode}-{number}-{rng.randrange(10**6)}"
        return NewJob(
            id=rng.choice([*self.oracle.jobs]) if again else own,
            kind=rng.choice(["work", "other"]),
            status=JobStatus.UPLOADED if rng.random() < 0.1 else JobStatus.QUEUED,
            priority=rng.choice([0, 0, 0, 5, -5]),
            max_attempts=rng.randint(1, 3),
            run_at=self.now + rng.randint(1, 20) if rng.random() < 0.2 else None,
            deadline_at=self.now + rng.randint(5, 40) + 0.5 if rng.random() < 0.3 else None,
            dedup_key=f"e{self.episode}-{rng.choice('abc')}" if rng.random() < 0.2 else None,
        )

    async def _tick(self) -> None:
        # Deadlines first: whether a claim also expires overdue jobs may differ between stores.
        await self._expire_deadlines()
        rng = self.rng
        some = rng.sample(self.leases, min(len(self.leases), rng.randint(0, 4)))
        once = list({lease.job_id: lease for lease in some}.values())
        finished = [Finished(lease, self._outcome()) for lease in once]
        worker = rng.choice(["w1", "w2"])
        kinds = {"work": None, "other": rng.choice([None, None, 2])}
        limit = rng.randint(0, 4)
        result = await self.store.tick(
            worker, finished, ClaimRequest(limit, ("default",), kinds, LEASE), now=self.now
        )
        expected = {item.lease: self.oracle.finish(item, self.now) for item in finished}
        leases = self.oracle.claim(worker, limit, kinds, self.now)
        answers = {item.lease: "accepted" for item in finished}
        answers |= {item.lease: str(item.reason) for item in result.refused}
        answers |= {item.lease: str(item.status) for item in result.overruled}
        what = f"tick {[(item.lease.job_id, item.outcome) for item in finished]} claims {limit}"
        self._agree(what, expected, answers)
        self._agree(
            "claim",
            {_key(lease) for lease in leases},
            {_key(claim.lease) for claim in result.claims},
        )
        self.leases = (self.leases + leases)[-30:]
        self.claimed += len(leases)

    def _outcome(self) -> Any:
        rng = self.rng
        return rng.choice(
            [
                Completed('"done"'),
                Completed('"done"'),
                Cancelled(),
                Released(),
                Released(float(rng.randint(1, 5))),
                Retry(0.0, _ERROR),
                Retry(float(rng.randint(1, 10)), _ERROR),
                Retry(float(rng.randint(0, 5)), _ERROR, counted=False),
                Failed(_ERROR, DeadLetterReason.PERMANENT),
                Failed(_ERROR, None),
            ]
        )

    async def _extend(self) -> None:
        some = self.rng.sample(self.leases, min(len(self.leases), 3))
        once = list({lease.job_id: lease for lease in some}.values())
        heartbeats = self.store.heartbeats()
        try:
            extended = await heartbeats.extend(once, LEASE, now=self.now)
        finally:
            await heartbeats.close()
        expected = self.oracle.extend(once, self.now)
        self._agree(
            f"extend {[_key(lease) for lease in once]}",
            expected,
            ({lease.job_id for lease in extended.lost}, set(extended.cancel_requested)),
        )

    async def _progress(self) -> None:
        if not self.leases:
            return
        lease, share = self.rng.choice(self.leases), self.rng.randint(0, 4) / 4
        taken = await self.store.progress(lease, share, now=self.now)
        self._agree(f"progress {_key(lease)}", self.oracle.progress(lease, share), taken)

    async def _cancel(self) -> None:
        job_id = self._some_id()
        change = await self.store.cancel(job_id, now=self.now)
        self._agree(f"cancel {job_id}", self.oracle.cancel(job_id), str(change))

    async def _retry(self) -> None:
        job_ids = [self._some_id() for _ in range(2)]
        changes = await self.store.retry(job_ids, now=self.now)
        expected = [self.oracle.retry(job_id, self.now) for job_id in job_ids]
        self._agree(f"retry {job_ids}", expected, [str(change) for change in changes])

    async def _expedite(self) -> None:
        job_id = self._some_id()
        change = await self.store.expedite(job_id, now=self.now)
        self._agree(f"expedite {job_id}", self.oracle.expedite(job_id, self.now), str(change))

    async def _discard(self) -> None:
        job_ids = [self._some_id() for _ in range(3)]
        gone = await self.store.discard(job_ids, now=self.now)
        self._agree(f"discard {job_ids}", self.oracle.discard(job_ids), gone)

    async def _submit(self) -> None:
        job_id = self._some_id()
        change = await self.store.submit(job_id, now=self.now)
        self._agree(f"submit {job_id}", self.oracle.submit(job_id, self.now), str(change))

    async def _reject(self) -> None:
        job_id = self._some_id()
        change = await self.store.reject(job_id, _ERROR, now=self.now)
        self._agree(f"reject {job_id}", self.oracle.reject(job_id, _ERROR.code), str(change))

    async def _rescue(self) -> None:
        rescued = await self.store.rescue(now=self.now)
        got = (set(rescued.requeued), set(rescued.dead), set(rescued.cancelled))
        self._agree("rescue", self.oracle.rescue(self.now), got)

    async def _expire_deadlines(self) -> None:
        ids = {job.job_id for job in await self.store.expire_deadlines(now=self.now)}
        self._agree("expire_deadlines", self.oracle.expire_deadlines(self.now), ids)

    async def _pass_time(self) -> None:
        self.now += self.rng.choice([1, 1, 2, 5, 12])
        self.trail.append(f"now {self.now:.0f}")

    async def _compare(self) -> None:
        """Compare all fields of a few jobs."""
        for job_id in {self._some_id() for _ in range(3)} & self.oracle.jobs.keys():
            job = await self.store.get(job_id, now=self.now)
            assert job is not None
            self._agree(
                f"get {job_id}", _model_fields(self.oracle.jobs[job_id]), _stored_fields(job)
            )
            late = await self.store.late_results(job_id)
            self._agree(f"late {job_id}", self.oracle.jobs[job_id].late > 0, len(late) > 0)

    async def start_episode(self, number: int) -> None:
        """Compare all jobs, finish them, and start again with an empty model."""
        for job_id, known in self.oracle.jobs.items():
            job = await self.store.get(job_id, now=self.now)
            assert job is not None
            self._agree(f"get {job_id}", _model_fields(known), _stored_fields(job))
        for job_id in self.oracle.jobs:
            await self.store.cancel(job_id, now=self.now)
        self.now += 1000.0
        await self.store.expire_deadlines(now=self.now)
        await self.store.rescue(now=self.now)
        self.oracle, self.leases, self.episode = Oracle(), [], number


def _key(lease: Lease) -> tuple[str, int]:
    return lease.job_id, lease.token


def _model_fields(known: ModelJob) -> dict[str, Any]:
    return {
        "status": known.status,
        "attempts": known.attempts,
        "token": known.token,
        "worker": known.worker,
        "expires_at": known.expires_at,
        "cancel_requested": known.cancel_requested,
        "manual_retries": known.manual_retries,
        "result": known.result,
        "code": known.code,
        "dead_letter": None if known.dead_letter is None else str(known.dead_letter),
        "deadline_at": known.deadline_at,
        "ready_at": known.ready_at if known.status == "queued" else None,
    }


def _stored_fields(job: Job) -> dict[str, Any]:
    return {
        "status": str(job.status),
        "attempts": job.attempt_count,
        "token": job.token,
        "worker": job.worker_id,
        "expires_at": job.lease_expires_at,
        "cancel_requested": job.cancel_requested,
        "manual_retries": job.manual_retry_count,
        "result": job.result,
        "code": None if job.error is None else str(job.error.code),
        "dead_letter": None if job.dead_letter is None else str(job.dead_letter),
        "deadline_at": job.deadline_at,
        "ready_at": job.ready_at if job.status is JobStatus.QUEUED else None,
    }
