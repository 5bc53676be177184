"""SIGKILL for workers, half of them at random moments and half at named points.

Every job must end complete, exactly once, by an attempt whose effect is in the ledger, and its
attempt numbers must be continuous.
"""

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Sequence

from campaigns.checker import judge, stale_writes
from campaigns.fleet import Fleet, WorkerProcess, until
from campaigns.jobs import effect
from campaigns.ledger import Ledger
from campaigns.plan import CampaignOutcome, Plan, echo
from campaigns.recording_store import POINTS
from campaigns.temporary_store import count, read_all, temporary_store
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import Store

_DRAIN = 120.0
"""Seconds in which the remaining jobs must finish after the last kill."""
_REACH = 2.5
"""Seconds to wait for a worker to reach its crash point; after that another is killed."""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    with (
        temporary_store(plan.store, plan.folder) as target,
        Ledger(plan.folder / "ledger") as ledger,
        Fleet(target.url, ledger, plan.folder, concurrency=plan.pick(8, 6)) as fleet,
    ):
        return asyncio.run(_run(plan, target.store(), ledger, fleet))


async def _run(plan: Plan, store: Store, ledger: Ledger, fleet: Fleet) -> CampaignOutcome:
    outcome = CampaignOutcome()
    rng = plan.rng()
    total = plan.pick(10_000, 300)
    async with store:
        jobs = new_jobs(total, rng, longest=plan.pick(800, 1200) / 1000)
        for first in range(0, total, 1000):
            await store.enqueue(jobs[first : first + 1000])
        began = time.monotonic()
        await fleet.start_ready(plan.pick(10, 4))
        kills = await _kill(plan, rng, fleet, store, total)
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
    outcome.expect(again > 0, "no killed worker had a job, so nothing was tested")
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


def new_jobs(total: int, rng: random.Random, longest: float, name: str = "j") -> list[NewJob]:
    """Return jobs that take up to `longest` seconds each."""
    kind = effect.kind
    return [
        NewJob(
            f"{name}{n}",
            kind.name,
            arguments=json.dumps(round(rng.uniform(0, longest), 3)),
            max_attempts=kind.policy.max_attempts,
        )
        for n in range(total)
    ]


async def _kill(
    plan: Plan, rng: random.Random, fleet: Fleet, store: Store, total: int
) -> Counter[str]:
    """Kill one worker per second, alternately at a random moment and at a crash point."""
    kills: Counter[str] = Counter()
    known = [name for name in POINTS if plan.store == "sqlite" or name != "in_commit"]
    rng.shuffle(known)
    points = itertools.cycle(known)
    due = time.monotonic()
    for number in range(plan.pick(60, 6)):
        due += 1.0 if plan.full else 0.7
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if await count(store, "complete") >= total:
            echo(f"    all jobs were complete after {number} kills")
            break
        crashed = await _crashed(fleet) if number % 2 else None
        if crashed is not None:
            kills[crashed.crash.partition(":")[0]] += 1
            fleet.remove(crashed)
            fleet.start()
        else:
            kills["random"] += 1
            fleet.remove(choose_victim(fleet.workers, rng))
            fleet.start(crash=f"{next(points)}:{rng.randint(1, 2)}")
    return kills


def choose_victim(workers: Sequence[WorkerProcess], rng: random.Random) -> WorkerProcess:
    """Return a random worker, if possible one without a crash point.

    On a busy machine crash points are reached so late that every worker may have one.
    """
    return rng.choice([worker for worker in workers if not worker.crash] or workers)


async def _crashed(fleet: Fleet) -> WorkerProcess | None:
    """Wait for a worker to die at its crash point; return it, or None after a timeout."""

    async def reached() -> bool:
        return any(worker.crash and worker.dead for worker in fleet.workers)

    await until(reached, _REACH)
    return next((worker for worker in fleet.workers if worker.crash and worker.dead), None)


def _replace_dead(fleet: Fleet) -> None:
    """Replace workers that died at a crash point after the last counted kill."""
    dead: list[WorkerProcess] = [worker for worker in fleet.workers if worker.dead]
    for worker in dead:
        fleet.remove(worker)
        fleet.start()
