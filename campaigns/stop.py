"""Workers are paused (SIGSTOP) for longer than their leases, and continue after a takeover.

In half of the rounds the resumed worker writes a completion, a failure, a retry, progress and a
heartbeat for jobs that another worker has claimed since; in the other half it is paused at a random
moment. No write that begins after a later claim of the job may be accepted.
"""

import asyncio
import json
import signal
from collections import Counter
from itertools import cycle
from pathlib import Path

from tests.support.processes import pause

from campaigns.checker import Staleness, judge, stale_writes
from campaigns.fleet import Fleet, WorkerProcess, until
from campaigns.jobs import gated
from campaigns.kill import new_jobs
from campaigns.ledger import Ledger, Line
from campaigns.plan import CampaignOutcome, Plan
from campaigns.temporary_store import TemporaryStore, count, read_all, temporary_store
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import Store

LEASE = 1.5
_ENDINGS = ("complete", "retry", "failed", "progress")
_STALE_WRITES = ("complete", "retry", "failed", "progress", "extend")
_TAKEN_OVER = 60.0
"""Seconds in which other workers must claim the jobs of a paused one."""
_GATED = 12
"""Jobs per gate: enough that the worker with the most of them has one for each ending."""
_EXTRA_ROUNDS = 10
"""Further gated rounds, as long as some kind of stale write has not been tried.

The heartbeat of a resumed worker may report the lost leases before the worker writes.
"""
_DRAIN = 60.0


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    with (
        temporary_store(plan.store, plan.folder) as target,
        Ledger(plan.folder / "ledger") as ledger,
        Fleet(
            target.url,
            ledger,
            plan.folder,
            concurrency=16,
            lease_seconds=LEASE,
            extend_every=0.3,
            slow_extend=0.3,
        ) as fleet,
    ):
        return asyncio.run(_Rounds(plan, target, ledger, fleet).run())


class _Rounds:
    """The rounds of one campaign, and their jobs."""

    def __init__(self, plan: Plan, target: TemporaryStore, ledger: Ledger, fleet: Fleet) -> None:
        self.plan = plan
        self.store: Store = target.store()
        self.database = target.path
        self.ledger = ledger
        self.fleet = fleet
        self.rng = plan.rng()
        self.jobs: list[str] = []
        self.outcome = CampaignOutcome()
        self.rounds = 0
        self.stuck = 0

    async def run(self) -> CampaignOutcome:
        outcome, rounds = self.outcome, self.plan.pick(24, 2)
        async with self.store:
            await self.fleet.start_ready(3)
            for number in range(rounds):
                await self._gated_round(number)
                await self._random_round(number)
            for number in range(rounds, rounds + _EXTRA_ROUNDS):
                if _untried(stale_writes(self.ledger.lines())):
                    await self._gated_round(number)

            async def drained() -> bool:
                return await count(self.store, "complete") == len(self.jobs)

            outcome.expect(await until(drained, _DRAIN), "the jobs did not finish in time")
            await self.fleet.stop_all()
            stored = await read_all(self.store)
            refused = (await self.store.stats()).totals.get("refused_writes", 0)
        lines = self.ledger.lines()
        judgement, stale = judge(self.jobs, [], stored, lines), stale_writes(lines)
        outcome.findings += [*judgement.findings, *stale.findings]
        outcome.findings += [f"no stale {write} was ever tried" for write in _untried(stale)]
        finished_first = sum(
            line.what == "extend"
            and line.accepted is False
            and stored[line.job].token == line.token
            for line in lines
        )
        outcome.figures |= {
            "rounds": self.rounds,
            "jobs": len(self.jobs),
            **{f"stale_{write}_refused": stale.refused[write] for write in _STALE_WRITES},
            "stale_accepted": len(stale.findings),
            "refused_writes": refused,
            "extensions_after_completion": finished_first,
            "not_taken_over": self.stuck,
            **judgement.figures(),
        }
        return outcome

    async def _gated_round(self, number: int) -> None:
        """Pause the worker that runs the most of the jobs waiting at one gate."""
        self.rounds += 1
        gate = self.plan.folder / f"gate-{number}"
        jobs = _gated_jobs(number, gate)
        await self._enqueue(jobs)

        async def all_started() -> bool:
            return len(self._claims(jobs, token=1)) == len(jobs)

        await until(all_started, _TAKEN_OVER)
        owners = Counter(line.worker for line in self._claims(jobs, token=1))
        victim = self._worker(owners.most_common(1)[0][0])
        held = {line.job for line in self._claims(jobs, 1) if line.worker == victim.pid}
        if self.database is None:
            victim.signal(signal.SIGSTOP)
        else:
            # Not inside a transaction: no other worker could write then, and none take over.
            await asyncio.to_thread(pause, victim.pid, self.database)

        async def taken_over() -> bool:
            return held <= {line.job for line in self._claims(jobs, token=2)}

        if not await until(taken_over, _TAKEN_OVER):
            self.stuck += 1
        named = gate.with_suffix(".named")
        endings = dict(zip(sorted(held), cycle(_ENDINGS), strict=False))
        named.write_text(json.dumps({"process": victim.pid, "endings": endings}))
        named.rename(gate)
        victim.signal(signal.SIGCONT)

        async def all_done() -> bool:
            done = {
                line.job
                for line in self.ledger.lines()
                if line.what == "report" and line.accepted and line.detail == "complete"
            }
            return {job.id for job in jobs} <= done

        await until(all_done, _TAKEN_OVER)
        # The resumed worker must finish its writes before the next round.
        await asyncio.sleep(1.0)

    async def _random_round(self, number: int) -> None:
        """Pause a random worker during short jobs, for 0.2 to 2.5 lease times."""
        self.rounds += 1
        jobs = new_jobs(60, self.rng, 0.3, name=f"r{number}-")
        await self._enqueue(jobs)
        await asyncio.sleep(self.rng.uniform(0.0, 0.4))
        victim = self.rng.choice(self.fleet.workers)
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(self.rng.uniform(0.2, 2.5) * LEASE)
        victim.signal(signal.SIGCONT)

    async def _enqueue(self, jobs: list[NewJob]) -> None:
        await self.store.enqueue(jobs)
        self.jobs += [job.id for job in jobs]

    def _claims(self, jobs: list[NewJob], token: int) -> list[Line]:
        wanted = {job.id for job in jobs}
        return [
            line
            for line in self.ledger.lines()
            if line.what == "claim" and line.token >= token and line.job in wanted
        ]

    def _worker(self, pid: int) -> WorkerProcess:
        return next(worker for worker in self.fleet.workers if worker.pid == pid)


def _untried(stale: Staleness) -> list[str]:
    """Return the kinds of stale write that no worker has tried yet."""
    return [write for write in _STALE_WRITES if not stale.refused[write]]


def _gated_jobs(number: int, gate: Path) -> list[NewJob]:
    kind = gated.kind
    return [
        NewJob(
            f"g{number}-{n}",
            kind.name,
            max_attempts=kind.policy.max_attempts,
            arguments=json.dumps(str(gate)),
        )
        for n in range(_GATED)
    ]
