"""Take random steps on a store and on the model in memory: every answer must be the same.

Both stores take the same steps under the same seed, so where both agree with the model they agree
with each other. Time is given, whole seconds that pass now and then.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from campaigns.oracle import LEASE, Known, Oracle
from campaigns.places import place
from campaigns.plan import Outcome, Plan
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
_EPISODE = 400
"""Steps after which all jobs are finished and forgotten, so that neither side grows slow."""


class Disagreement(Exception):
    """The store answered otherwise than the model."""


def run(plan: Plan) -> Outcome:
    """Run the campaign."""
    with place(plan.store, plan.folder) as where:
        return asyncio.run(_run(plan, where.store()))


async def _run(plan: Plan, store: Store) -> Outcome:
    outcome, steps = Outcome(), plan.pick(100_000, 1500)
    taken = 0
    async with store:
        walk = Walk(store, plan.chance())
        try:
            while taken < steps:
                await walk.step()
                taken += 1
                if taken % _EPISODE == 0:
                    await walk.begin_anew(taken)
        except Disagreement as error:
            outcome.findings.append(f"step {taken}: {error}; before it: {walk.trail[-8:]}")
    outcome.figures |= {"steps": taken, "jobs": walk.created, "claims": walk.claimed}
    return outcome


@dataclass(slots=True)
class Walk:
    """A random walk over one store and the model."""

    store: Store
    chance: random.Random
    oracle: Oracle = field(default_factory=Oracle)
    now: float = 1_800_000_000.0
    leases: list[Lease] = field(default_factory=list)
    trail: list[str] = field(default_factory=list)
    episode: int = 0
    created: int = 0
    claimed: int = 0

    async def step(self) -> None:
        """Take one step; raise `Disagreement` where the store does not follow."""
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
        (chosen,) = self.chance.choices([what for _, what in steps], [w for w, _ in steps])
        await chosen()

    def _agree(self, what: str, expected: Any, got: Any) -> None:
        self.trail.append(what)
        del self.trail[:-20]
        if expected != got:
            raise Disagreement(f"{what}: expected {expected}, got {got}")

    def _some_id(self) -> str:
        """Return the id of a job, or now and then of none."""
        if not self.oracle.jobs or self.chance.random() < 0.05:
            return "nobody"
        return self.chance.choice([*self.oracle.jobs])

    async def _enqueue(self) -> None:
        jobs = [self._new_job() for _ in range(self.chance.randint(1, 3))]
        answers = await self.store.enqueue(jobs, now=self.now)
        expected = [self.oracle.enqueue(job, self.now) for job in jobs]
        self.created += sum(created for _, created in expected)
        self._agree(
            f"enqueue {[job.id for job in jobs]}",
            expected,
            [(answer.id, answer.created) for answer in answers],
        )

    def _new_job(self) -> NewJob:
        chance = self.chance
        again = self.oracle.jobs and chance.random() < 0.05
        number = len(self.oracle.jobs)
        own = f"e{self.episode}-{number}-{chance.randrange(10**6)}"
        return NewJob(
            id=chance.choice([*self.oracle.jobs]) if again else own,
            kind=chance.choice(["work", "other"]),
            status=JobStatus.UPLOADED if chance.random() < 0.1 else JobStatus.QUEUED,
            priority=chance.choice([0, 0, 0, 5, -5]),
            max_attempts=chance.randint(1, 3),
            run_at=self.now + chance.randint(1, 20) if chance.random() < 0.2 else None,
            deadline_at=self.now + chance.randint(5, 40) + 0.5 if chance.random() < 0.3 else None,
            dedup_key=f"e{self.episode}-{chance.choice('abc')}" if chance.random() < 0.2 else None,
        )

    async def _tick(self) -> None:
        # First the deadlines: when a claim itself fails what it meets is left to each store.
        await self._expire_deadlines()
        chance = self.chance
        some = chance.sample(self.leases, min(len(self.leases), chance.randint(0, 4)))
        once = list({lease.job_id: lease for lease in some}.values())
        finished = [Finished(lease, self._outcome()) for lease in once]
        worker = chance.choice(["w1", "w2"])
        kinds = {"work": None, "other": chance.choice([None, None, 2])}
        limit = chance.randint(0, 4)
        result = await self.store.tick(
            worker, finished, ClaimRequest(limit, ("default",), kinds, LEASE), now=self.now
        )
        told = {item.lease: self.oracle.finish(item, self.now) for item in finished}
        leases = self.oracle.claim(worker, limit, kinds, self.now)
        answers = {item.lease: "accepted" for item in finished}
        answers |= {item.lease: str(item.reason) for item in result.refused}
        answers |= {item.lease: str(item.status) for item in result.overruled}
        what = f"tick {[(item.lease.job_id, item.outcome) for item in finished]} claims {limit}"
        self._agree(what, told, answers)
        self._agree(
            "claim",
            {_key(lease) for lease in leases},
            {_key(claim.lease) for claim in result.claims},
        )
        self.leases = (self.leases + leases)[-30:]
        self.claimed += len(leases)

    def _outcome(self) -> Any:
        chance = self.chance
        return chance.choice(
            [
                Completed('"done"'),
                Completed('"done"'),
                Cancelled(),
                Released(),
                Released(float(chance.randint(1, 5))),
                Retry(0.0, _ERROR),
                Retry(float(chance.randint(1, 10)), _ERROR),
                Retry(float(chance.randint(0, 5)), _ERROR, counted=False),
                Failed(_ERROR, DeadLetterReason.PERMANENT),
                Failed(_ERROR, None),
            ]
        )

    async def _extend(self) -> None:
        some = self.chance.sample(self.leases, min(len(self.leases), 3))
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
        lease, share = self.chance.choice(self.leases), self.chance.randint(0, 4) / 4
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
        gone = await self.store.expire_deadlines(now=self.now)
        self._agree("expire_deadlines", self.oracle.expire_deadlines(self.now), set(gone))

    async def _pass_time(self) -> None:
        self.now += self.chance.choice([1, 1, 2, 5, 12])
        self.trail.append(f"now {self.now:.0f}")

    async def _compare(self) -> None:
        """Look at a few jobs in every detail, and at the counters."""
        for job_id in {self._some_id() for _ in range(3)} & self.oracle.jobs.keys():
            job = await self.store.get(job_id, now=self.now)
            assert job is not None
            self._agree(f"get {job_id}", _expected(self.oracle.jobs[job_id]), _seen(job))
            late = await self.store.late_results(job_id)
            self._agree(f"late {job_id}", self.oracle.jobs[job_id].late > 0, len(late) > 0)

    async def begin_anew(self, number: int) -> None:
        """Compare everything, end everything, and forget it."""
        for job_id, known in self.oracle.jobs.items():
            job = await self.store.get(job_id, now=self.now)
            assert job is not None
            self._agree(f"get {job_id}", _expected(known), _seen(job))
        for job_id in self.oracle.jobs:
            await self.store.cancel(job_id, now=self.now)
        self.now += 1000.0
        await self.store.rescue(now=self.now)
        self.oracle, self.leases, self.episode = Oracle(), [], number


def _key(lease: Lease) -> tuple[str, int]:
    return lease.job_id, lease.token


def _expected(known: Known) -> dict[str, Any]:
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


def _seen(job: Job) -> dict[str, Any]:
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
