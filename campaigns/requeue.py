"""Runs over thousands of dead letters: paced, aborted half-way, killed half-way, begun again.

A first run is aborted by a person, and a second one is killed with its server. Each time the stored
run must say how far it came, every job must be requeued or still a dead letter, and none may be
requeued twice. A third run requeues the rest.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from campaigns.fleet import ROOT, environment, until
from campaigns.plan import CampaignOutcome, Plan
from campaigns.temporary_store import temporary_store
from holdfast.bootstrap import Engine
from holdfast.http.dead_letter_runs import STALE_AFTER, DeadLetterRuns
from holdfast.ids import new_ids
from holdfast.jobs.model import Failed, Finished, JobError, JobStatus, NewJob
from holdfast.jobs.operations_port import DeadLetterRun, RunAction, RunState
from holdfast.jobs.store_port import ClaimRequest, Store
from holdfast.jobs.views import EVERY_JOB
from holdfast.testing import VirtualClock

_BATCH = 1000
_PATIENCE = 120.0


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    outcome, letters = CampaignOutcome(), plan.pick(10_000, 1_000)
    with temporary_store(plan.store, plan.folder) as target:
        trial = _Trial(target.url, letters, outcome)
        asyncio.run(trial.fail_jobs())
        aborted = asyncio.run(trial.abort())
        killed = asyncio.run(trial.kill())
        asyncio.run(trial.finish())
    outcome.figures |= {"dead_letters": letters, "before_abort": aborted, "before_kill": killed}
    return outcome


@dataclass(frozen=True, slots=True)
class _Trial:
    """The steps of the campaign on one store; each adds to the findings.

    A run takes ten seconds at `rate`. Most of them pass on a virtual clock.
    """

    url: str
    letters: int
    outcome: CampaignOutcome

    @property
    def rate(self) -> float:
        return self.letters / 10

    async def fail_jobs(self) -> None:
        """Store the dead letters."""
        async with Engine(self.url) as engine:
            store, failed = engine.store, Failed(JobError("NO_GRAIN", "the mill stands still"))
            for _ in range(self.letters // _BATCH):
                await store.enqueue([NewJob(job_id, "work") for job_id in new_ids(_BATCH, 0.0)])
                claim = ClaimRequest(_BATCH, ("default",), {"work": None})
                claims = (await store.tick("w", claim=claim)).claims
                await store.tick("w", [Finished(each.lease, failed) for each in claims])

    async def abort(self) -> int:
        """Stop a run half-way; return how many it has requeued."""
        clock = VirtualClock()
        async with Engine(self.url, clock=clock) as engine:
            runs, began = DeadLetterRuns(engine), clock.monotonic()
            begun = await _begin(runs, self.rate)
            self._expect(begun.total == self.letters, "the run was not counted first")
            await _until(lambda: self._reached(engine, 0.7))
            await runs.stop()
            seen = await _ended(runs)
            seconds = clock.monotonic() - began
            self._expect(seen.state is RunState.STOPPED, f"the aborted run is {seen.state}")
            await self._account(engine.store, seen.done)
        most = self.rate * (seconds + 0.1)  # the first batch comes at once
        self._expect(seen.done <= most, f"{seen.done} jobs in {seconds:.1f} s are too many")
        return seen.done

    async def kill(self) -> int:
        """Kill the server of a run half-way; return how many are requeued in all by then."""
        async with Engine(self.url) as engine:
            server = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "campaigns.requeue_process", self.url, str(self.rate),
                cwd=ROOT, env=environment(),
            )  # fmt: skip
            try:
                await _until(lambda: self._reached(engine, 0.4))
            finally:
                server.kill()
                await server.wait()
            left = (await engine.stats()).dead_letters
            self._expect(left > 0, "the run had ended before it was killed")
            await self._account(engine.store, self.letters - left)
            (stored,) = await engine.store.runs(limit=1)
            self._expect(stored.state is RunState.RUNNING, f"the killed run is {stored.state}")
            self._expect(stored.done <= stored.total - left, "it counts more than it has done")
            return self.letters - left

    async def finish(self) -> None:
        """Begin the run again, after the time in which its server could have come back."""
        async with Engine(self.url) as engine:
            (killed,) = await engine.store.runs(limit=1)
            left = (await engine.stats()).dead_letters
            # As if that time had passed: the last write of the dead server lies before it.
            await engine.store.update_run(killed, now=await engine.store.ping() - 2 * STALE_AFTER)
            runs = DeadLetterRuns(engine)
            (shown,) = await runs.list(limit=1)
            self._expect(shown.state is RunState.FAILED, f"the killed run is shown {shown.state}")
            begun = await _begin(runs, None)
            self._expect(begun.total == left, f"{begun.total} of {left} were counted")
            seen = await _ended(runs)
            self._expect(seen.state is RunState.FINISHED, f"the last run is {seen.state}")
            self._expect(seen.done == left, f"{seen.done} of {left} were requeued")
            await self._account(engine.store, self.letters)

    async def _reached(self, engine: Engine, share: float) -> bool:
        """Say whether at most `share` of the dead letters are left."""
        return (await engine.stats()).dead_letters <= share * self.letters

    async def _account(self, store: Store, done: int) -> None:
        """Expect that `done` jobs were requeued once, and that the others are dead letters."""
        jobs = (await store.list_jobs(limit=self.letters + 1)).jobs
        found = Counter((job.status, job.is_dead_letter, job.manual_retry_count) for job in jobs)
        requeued = Counter({(JobStatus.QUEUED, False, 1): done})
        left = Counter({(JobStatus.FAILED, True, 0): self.letters - done})
        self._expect(found == requeued + left, f"after {done} were requeued: {found}")

    def _expect(self, holds: bool, what: str) -> None:
        self.outcome.expect(holds, what)


async def _begin(runs: DeadLetterRuns, rate: float | None) -> DeadLetterRun:
    return await runs.begin(RunAction.REQUEUE, EVERY_JOB, rate=rate, who="ann")


async def _until(fact: Callable[[], Awaitable[bool]]) -> None:
    if not await until(fact, _PATIENCE):
        raise TimeoutError("the run does not get ahead")


async def _ended(runs: DeadLetterRuns) -> DeadLetterRun:
    async def ended() -> bool:
        (run,) = await runs.list(limit=1)
        return run.state is not RunState.RUNNING

    await _until(ended)
    (run,) = await runs.list(limit=1)
    return run
