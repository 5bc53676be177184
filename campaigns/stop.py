"""Stop workers (SIGSTOP) for longer than their leases, let others take over, and continue them.

In half of the rounds the one that comes back has a completion, a failure, a retry, progress and a
heartbeat to write about jobs that are another's by then; in the others it is stopped somewhere in
the middle of its work. None of what it writes after a job was claimed again may be accepted.
"""

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path

from campaigns.checker import judge, stale_writes
from campaigns.fleet import Fleet, WorkerProcess, until
from campaigns.jobs import gated
from campaigns.kill import new_jobs
from campaigns.ledger import Ledger, Line
from campaigns.places import count, place, read_all
from campaigns.plan import Outcome, Plan
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import Store

LEASE = 1.5
_ENDINGS = ("complete", "retry", "failed", "progress")
_SORTS = ("complete", "retry", "failed", "progress", "extend")
_TAKEN_OVER = 15.0
"""Seconds in which others must have claimed what a stopped worker held."""
_DRAIN = 60.0


def run(plan: Plan) -> Outcome:
    """Run the campaign."""
    with (
        place(plan.store, plan.folder) as where,
        Ledger(plan.folder / "ledger") as ledger,
        Fleet(
            where.url,
            ledger,
            plan.folder,
            concurrency=16,
            lease_seconds=LEASE,
            extend_every=0.3,
            slow_extend=0.3,
        ) as fleet,
    ):
        return asyncio.run(_Rounds(plan, where.store(), ledger, fleet).run())


class _Rounds:
    """The rounds of one campaign, and the jobs they enqueued."""

    def __init__(self, plan: Plan, store: Store, ledger: Ledger, fleet: Fleet) -> None:
        self.plan = plan
        self.store = store
        self.ledger = ledger
        self.fleet = fleet
        self.chance = plan.chance()
        self.jobs: list[str] = []
        self.outcome = Outcome()
        self.stuck = 0

    async def run(self) -> Outcome:
        outcome, rounds = self.outcome, self.plan.pick(24, 2)
        async with self.store:
            await self.fleet.start_ready(3)
            for number in range(rounds):
                await self._gated_round(number)
                await self._random_round(number)

            async def drained() -> bool:
                return await count(self.store, "complete") == len(self.jobs)

            outcome.expect(await until(drained, _DRAIN), "the jobs did not end in time")
            await self.fleet.stop_all()
            stored = await read_all(self.store)
            refused = (await self.store.stats()).totals.get("refused_writes", 0)
        lines = self.ledger.lines()
        judgement, stale = judge(self.jobs, [], stored, lines), stale_writes(lines)
        outcome.findings += [*judgement.findings, *stale.findings]
        for sort in _SORTS:
            outcome.expect(stale.refused[sort] > 0, f"no stale {sort} was ever tried")
        finished_first = sum(
            line.what == "extend"
            and line.accepted is False
            and stored[line.job].token == line.token
            for line in lines
        )
        outcome.figures |= {
            "rounds": 2 * rounds,
            "jobs": len(self.jobs),
            **{f"stale_{sort}_refused": stale.refused[sort] for sort in _SORTS},
            "stale_accepted": len(stale.findings),
            "refused_writes": refused,
            "extensions_after_the_end": finished_first,
            "not_taken_over": self.stuck,
            **judgement.figures(),
        }
        return outcome

    async def _gated_round(self, number: int) -> None:
        """Stop whoever holds most of some jobs that all wait at one gate."""
        gate = self.plan.folder / f"gate-{number}"
        jobs = _gated_jobs(number, gate)
        await self._enqueue(jobs)

        async def all_started() -> bool:
            return len(self._claims(jobs, token=1)) == len(jobs)

        await until(all_started, _TAKEN_OVER)
        owners = Counter(line.worker for line in self._claims(jobs, token=1))
        victim = self._worker(owners.most_common(1)[0][0])
        held = {line.job for line in self._claims(jobs, 1) if line.worker == victim.pid}
        victim.signal(signal.SIGSTOP)

        async def taken_over() -> bool:
            return held <= {line.job for line in self._claims(jobs, token=2)}

        if not await until(taken_over, _TAKEN_OVER):
            self.stuck += 1
        named = gate.with_suffix(".named")
        named.write_text(str(victim.pid))
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
        # What it still has to say must have been said before the next round.
        await asyncio.sleep(1.0)

    async def _random_round(self, number: int) -> None:
        """Stop somebody in the middle of short jobs, for less or more than the lease."""
        jobs = new_jobs(60, self.chance, 0.3, name=f"r{number}-")
        await self._enqueue(jobs)
        await asyncio.sleep(self.chance.uniform(0.0, 0.4))
        victim = self.chance.choice(self.fleet.workers)
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(self.chance.uniform(0.2, 2.5) * LEASE)
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


def _gated_jobs(number: int, gate: Path) -> list[NewJob]:
    kind = gated.kind
    return [
        NewJob(
            f"g{number}-{n}",
            kind.name,
            max_attempts=kind.policy.max_attempts,
            arguments=json.dumps({"gate": str(gate), "then": _ENDINGS[n % 4]}),
        )
        for n in range(8)
    ]
