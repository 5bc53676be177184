"""Kill workers with SIGKILL, half of them at random moments and half at named points.

Every job must end complete, exactly once, by an attempt whose effect is in the ledger, with its
attempts counted on.
"""

import asyncio
import itertools
import json
import random
import time
from collections import Counter

from campaigns.checker import judge, stale_writes
from campaigns.fleet import Fleet, WorkerProcess, until
from campaigns.jobs import effect
from campaigns.ledger import Ledger
from campaigns.places import count, place, read_all
from campaigns.plan import Outcome, Plan, say
from campaigns.watched import POINTS
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import Store

_DRAIN = 120.0
"""Seconds in which what is left must be finished once the killing is over."""
_REACH = 2.5
"""Seconds in which a worker should reach its point; else another is killed at random."""


def run(plan: Plan) -> Outcome:
    """Run the campaign."""
    with (
        place(plan.store, plan.folder) as where,
        Ledger(plan.folder / "ledger") as ledger,
        Fleet(where.url, ledger, plan.folder, concurrency=plan.pick(8, 6)) as fleet,
    ):
        return asyncio.run(_run(plan, where.store(), ledger, fleet))


async def _run(plan: Plan, store: Store, ledger: Ledger, fleet: Fleet) -> Outcome:
    outcome = Outcome()
    chance = plan.chance()
    total = plan.pick(10_000, 300)
    async with store:
        jobs = new_jobs(total, chance, longest=plan.pick(800, 1200) / 1000)
        for first in range(0, total, 1000):
            await store.enqueue(jobs[first : first + 1000])
        began = time.monotonic()
        await fleet.start_ready(plan.pick(10, 4))
        kills = await _kill(plan, chance, fleet, store, total)
        for worker in fleet.workers:
            worker.crash = ""

        async def drained() -> bool:
            _replace_dead(fleet)
            return await count(store, "complete") + await count(store, "failed") == total

        outcome.expect(await until(drained, _DRAIN, 0.3), "the backlog was not drained in time")
        seconds = time.monotonic() - began
        await fleet.stop_all()
        stored = await read_all(store)
        refused = (await store.stats()).totals.get("refused_writes", 0)
    lines = ledger.lines()
    judgement = judge([job.id for job in jobs], [], stored, lines)
    stale = stale_writes(lines)
    outcome.findings += [*judgement.findings, *stale.findings]
    again = sum(job.attempt_count > 1 for job in stored.values())
    outcome.expect(again > 0, "no killed worker had a job: nothing was tried")
    outcome.figures |= {
        "jobs": total,
        "workers": plan.pick(10, 4),
        "kills": kills.total(),
        "kills_at_random": kills["random"],
        "kills_at_points": kills.total() - kills["random"],
        "points": " ".join(sorted(kills.keys() - {"random"})),
        "run_again": again,
        "most_attempts": max(job.attempt_count for job in stored.values()),
        "effects": sum(line.what == "effect" for line in lines),
        "refused_writes": refused,
        "seconds": round(seconds, 1),
        **judgement.figures(),
    }
    return outcome


def new_jobs(total: int, chance: random.Random, longest: float, name: str = "j") -> list[NewJob]:
    """Return jobs that take up to `longest` seconds each."""
    kind = effect.kind
    return [
        NewJob(
            f"{name}{n}",
            kind.name,
            arguments=json.dumps(round(chance.uniform(0, longest), 3)),
            max_attempts=kind.policy.max_attempts,
        )
        for n in range(total)
    ]


async def _kill(
    plan: Plan, chance: random.Random, fleet: Fleet, store: Store, total: int
) -> Counter[str]:
    """Kill one worker every second: at random, then one that is told where to die, and so on."""
    kills: Counter[str] = Counter()
    known = [name for name in POINTS if plan.store == "sqlite" or name != "in_commit"]
    chance.shuffle(known)
    points = itertools.cycle(known)
    due = time.monotonic()
    for number in range(plan.pick(60, 6)):
        due += 1.0 if plan.full else 0.7
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if await count(store, "complete") >= total:
            say(f"    the backlog ended after {number} kills")
            break
        armed = await _died(fleet) if number % 2 else None
        if armed is not None:
            kills[armed.crash.partition(":")[0]] += 1
            fleet.remove(armed)
            fleet.start()
        else:
            kills["random"] += 1
            fleet.remove(chance.choice([worker for worker in fleet.workers if not worker.crash]))
            fleet.start(crash=f"{next(points)}:{chance.randint(1, 2)}")
    return kills


async def _died(fleet: Fleet) -> WorkerProcess | None:
    """Wait a little for a worker to reach the point that it is to die at."""

    async def reached() -> bool:
        return any(worker.crash and worker.dead for worker in fleet.workers)

    await until(reached, _REACH)
    return next((worker for worker in fleet.workers if worker.crash and worker.dead), None)


def _replace_dead(fleet: Fleet) -> None:
    """Start a worker for each that died after the last kill was counted."""
    dead: list[WorkerProcess] = [worker for worker in fleet.workers if worker.dead]
    for worker in dead:
        fleet.remove(worker)
        fleet.start()
