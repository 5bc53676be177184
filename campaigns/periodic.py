"""Periodic jobs while leaders are killed and paused: each slot gets one job.

Every few slots the leader of three workers is killed (SIGKILL) and replaced, or paused (SIGSTOP)
for longer than its leadership lasts. In the second half of the slots the new workers are of two
releases that declare the same schedule, so that two leaders run it.
"""

import asyncio
import json
import re
import signal
from datetime import datetime

from tests.support.processes import pause

from campaigns.fleet import Fleet, WorkerProcess, until
from campaigns.ledger import Ledger
from campaigns.plan import CampaignOutcome, Plan
from campaigns.temporary_store import temporary_store
from holdfast.jobs.client.periodic_control import PeriodicSchedule
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.model import Job, JobStatus
from holdfast.jobs.store_port import Store
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import RetryPolicy

EVERY = 0.25
"""Seconds between two slots."""
_SLOTS_PER_FAULT = 8
_PAUSE = 2.5
"""Seconds; a leadership of these workers lasts 1.5."""
_DRAIN = 60.0
_WORKERS = 3
_RELEASES = ("campaigns.periodic:app", "campaigns.periodic:next_release")
_LEADS = re.compile(r"(no longer leads|leads) maintenance: .*periodic")
_PATIENT = RetryPolicy(max_attempts=200, backoff=Exponential(base=0.0, jitter=0.0))


def _release(*more: str) -> App:
    """Return the app; kinds beside the periodic one make it another release."""
    declared = App("slots")

    @declared.periodic(every=EVERY, retry=_PATIENT)
    async def tick(ctx: JobContext) -> str:
        return ctx.slot.isoformat()

    for name in more:

        @declared.job(name)
        async def other(ctx: JobContext) -> None: ...

    return declared


app = _release()
next_release = _release("added")


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    with (
        temporary_store(plan.store, plan.folder) as target,
        Ledger(plan.folder / "ledger") as ledger,
        Fleet(target.url, ledger, plan.folder) as fleet,
    ):
        return asyncio.run(_Run(plan, target.store(), fleet).run())


class _Run:
    """One run: the faults, and the check at the end."""

    def __init__(self, plan: Plan, store: Store, fleet: Fleet) -> None:
        self.store = store
        self.database = plan.folder / "jobs.db"  # on SQLite
        self.fleet = fleet
        self.rng = plan.rng()
        self.slots = plan.pick(200, 60)
        self.outcome = CampaignOutcome()
        self.kills = self.pauses = 0

    async def run(self) -> CampaignOutcome:
        async with self.store:
            engine = StoreEngine(self.store, [app])
            await self.fleet.start_ready(_WORKERS, app=_RELEASES[0])
            while (passed := len(await self._jobs())) < self.slots:
                await asyncio.sleep(EVERY * self.rng.uniform(1, _SLOTS_PER_FAULT))
                await self._fault(rolling=passed > self.slots / 2)
            await engine.periodic.pause("slots.tick")
            drained = await until(self._drained, _DRAIN)
            self.outcome.expect(drained, "the jobs did not finish in time")
            await self.fleet.stop_all()
            self._check(await self._jobs(), await engine.periodic.get("slots.tick"))
        return self.outcome

    async def _fault(self, *, rolling: bool) -> None:
        """Kill or pause a worker that leads the periodic jobs of its release."""
        leaders = [worker for worker in self.fleet.workers if _leads(worker)]
        if not leaders:
            return
        victim = self.rng.choice(leaders)
        if self.rng.random() < 0.75:
            self.kills += 1
            self.fleet.remove(victim)
            release = self.rng.choice(_RELEASES) if rolling else _RELEASES[0]
            await self.fleet.start(app=release).ready()
        else:
            self.pauses += 1
            await asyncio.to_thread(pause, victim.pid, self.database)
            await asyncio.sleep(_PAUSE)
            victim.signal(signal.SIGCONT)

    async def _drained(self) -> bool:
        return all(job.status is JobStatus.COMPLETE for job in await self._jobs())

    async def _jobs(self) -> list[Job]:
        return list((await self.store.list_jobs(limit=10_000)).jobs)

    def _check(self, jobs: list[Job], schedule: PeriodicSchedule) -> None:
        made = sorted(round(_slot(job) / EVERY) for job in jobs)
        assert schedule.last_slot is not None
        wanted = range(made[0], round(schedule.last_slot / EVERY) + 1)
        findings = self.outcome.findings
        findings += [f"slot {slot} has no job" for slot in sorted({*wanted} - {*made})]
        findings += [f"slot {slot} has several jobs" for slot in made if made.count(slot) > 1]
        findings += [
            f"{job.id} returned another slot: {job.result}"
            for job in jobs
            if job.result is None or datetime.fromisoformat(json.loads(job.result)) != _time(job)
        ]
        self.outcome.expect(self.kills > 0, "no leader was killed")
        delays = sorted(job.created_at - _slot(job) for job in jobs)
        self.outcome.figures |= {
            "slots": len(wanted),
            "jobs": len(jobs),
            "leaders_killed": self.kills,
            "leaders_paused": self.pauses,
            "median_delay_seconds": round(delays[len(delays) // 2], 3),
            "longest_delay_seconds": round(delays[-1], 2),
        }


def _leads(worker: WorkerProcess) -> bool:
    said = _LEADS.findall(worker.log.read_text("utf-8", "replace"))
    return bool(said) and said[-1] == "leads"


def _time(job: Job) -> datetime:
    assert job.meta is not None
    return datetime.fromisoformat(json.loads(job.meta)["slot"])


def _slot(job: Job) -> float:
    return _time(job).timestamp()
