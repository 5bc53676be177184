"""Handlers that commit their own rows with their jobs, in workers that are killed.

Each job adds 1 to one account and enqueues two jobs. Workers are killed at random moments, and kill
themselves around the commit. At the end the account must show exactly one deposit per job, and each
job must have exactly its two children.
"""

import asyncio
import json
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import apsw

from campaigns import bank
from campaigns.fleet import Fleet, until
from campaigns.ledger import Ledger
from campaigns.plan import CampaignOutcome, Plan
from campaigns.temporary_store import TemporaryStore, count, temporary_store
from holdfast.jobs.model import JobStatus, NewJob
from holdfast.jobs.store_port import Store

_TABLES = (
    "CREATE TABLE bank_account (total integer NOT NULL)",
    "CREATE TABLE bank_entries (job text NOT NULL, token bigint NOT NULL)",
    "INSERT INTO bank_account VALUES (0)",
)
_DRAIN = 240.0
"""Seconds in which all jobs must be finished."""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    with (
        temporary_store(plan.store, plan.folder) as target,
        Ledger(plan.folder / "ledger") as ledger,
        Fleet(
            target.url, ledger, plan.folder, module="campaigns.bank", concurrency=4,
            lease_seconds=8.0, extend_every=1.0,
        ) as fleet,
    ):  # fmt: skip
        return asyncio.run(_run(plan, target, fleet))


async def _run(plan: Plan, target: TemporaryStore, fleet: Fleet) -> CampaignOutcome:
    outcome, rng = CampaignOutcome(), plan.rng()
    total, workers = plan.pick(2000, 400), plan.pick(6, 3)
    plain = total // 4
    for statement in _TABLES:
        await _sql(target, statement)
    async with target.store() as store:
        jobs = _jobs(total, plain, rng, deaths=plan.pick(40, 8))
        await store.enqueue(jobs)
        began = time.monotonic()
        await fleet.start_ready(workers)
        kills = await _kill_until_done(store, fleet, rng, total + plain, plan.pick(60, 10))
        outcome.expect(kills.pop("unfinished", 0) == 0, "the jobs were not finished in time")
        seconds = time.monotonic() - began
        for worker in [each for each in fleet.workers if each.dead]:
            fleet.remove(worker)
        for worker in fleet.workers:
            await worker.ready()
        statuses = await fleet.stop_all()
        outcome.expect(set(statuses) <= {0}, f"workers ended with {statuses}")
        _check_lifespans(outcome, [worker.log for worker in fleet.workers])
        await _check_jobs(outcome, store, [job.id for job in jobs])
        refused = (await store.stats()).totals.get("refused_writes", 0)
    ((balance,),) = await _sql(target, "SELECT total FROM bank_account")
    entries = Counter(job for (job,) in await _sql(target, "SELECT job FROM bank_entries"))
    outcome.expect(balance == total, f"{total} deposits, but the account shows {balance}")
    for job, times in entries.items():
        outcome.expect(times == 1, f"duplicate: {job} was committed {times} times")
    outcome.expect(len(entries) == total, f"{total} deposits, but {len(entries)} jobs have entries")
    outcome.expect(kills.total() > 0, "no worker died, so nothing was tested")
    outcome.figures |= {
        "jobs": total + plain, "deposits": total, "balance": balance, "workers": workers,
        "kills_at_random": kills["random"], "kills_at_points": kills["itself"],
        "refused_writes": refused, "seconds": round(seconds, 1),
    }  # fmt: skip
    return outcome


def _jobs(total: int, plain: int, rng: random.Random, deaths: int) -> list[NewJob]:
    """Return `total` deposits and `plain` others; `deaths` of the deposits kill their process."""
    crashes = [bank.POINTS[n % len(bank.POINTS)] for n in range(deaths)]
    crashes += [""] * (total - deaths)
    rng.shuffle(crashes)
    jobs = []
    for number, crash in enumerate(crashes):
        connection = ("store", "own", "blocking")[number % 3]
        kind = (bank.deposit_blocking if connection == "blocking" else bank.deposit).kind
        jobs.append(_job(f"d{number}-{crash}", kind, {"connection": connection, "crash": crash}))
    for number in range(plain):
        crash = "held" if number % 100 == 99 else ""
        arguments = {"connection": "store", "crash": crash}
        jobs.append(_job(f"p{number}-{crash}", bank.plain.kind, arguments))
    rng.shuffle(jobs)
    return jobs


def _job(job_id: str, kind: Any, arguments: dict[str, str]) -> NewJob:
    attempts = kind.policy.max_attempts
    return NewJob(job_id, kind.name, arguments=json.dumps(arguments), max_attempts=attempts)


async def _kill_until_done(
    store: Store, fleet: Fleet, rng: random.Random, jobs: int, most: int
) -> Counter[str]:
    """Kill a worker now and then, replace all that died, until every job is finished."""
    kills: Counter[str] = Counter()
    wanted = jobs * (1 + bank.CHILDREN)
    next_kill = time.monotonic() + 1.0

    async def finished() -> bool:
        nonlocal next_kill
        for worker in [each for each in fleet.workers if each.dead]:
            kills["itself"] += 1
            fleet.remove(worker)
            fleet.start()
        if time.monotonic() >= next_kill and kills["random"] < most:
            kills["random"] += 1
            victim = rng.choice(fleet.workers)
            victim.signal(signal.SIGKILL)
            fleet.remove(victim)
            fleet.start()
            next_kill = time.monotonic() + rng.uniform(0.2, 1.5)
        return await count(store, "complete") + await count(store, "failed") >= wanted

    if not await until(finished, _DRAIN, 0.1):
        kills["unfinished"] = 1
    return kills


async def _check_jobs(outcome: CampaignOutcome, store: Store, ids: list[str]) -> None:
    children: Counter[str] = Counter()
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        page = await store.list_jobs(cursor=cursor, limit=500)
        for job in page.jobs:
            ok = job.status is JobStatus.COMPLETE
            outcome.expect(ok, f"{job.kind} {job.id} is {job.status}: {job.error}")
            if job.kind == bank.follow.kind.name:
                children[job.owner or ""] += 1
            else:
                seen.add(job.id)
                outcome.expect(job.result == str(job.token), f"{job.id}: result {job.result}")
        cursor = page.next_cursor
        if cursor is None:
            break
    outcome.expect(seen == set(ids), "the parents are not those that were enqueued")
    for job_id in ids:
        found = children.pop(job_id, 0)
        outcome.expect(found == bank.CHILDREN, f"{job_id} is complete with {found} children")
    outcome.expect(not children, f"children of unknown jobs: {children}")


def _check_lifespans(outcome: CampaignOutcome, logs: list[Path]) -> None:
    """Check by their logs that workers which were stopped in order have left their lifespans."""
    for log in logs:
        outcome.expect("lifespan left" in log.read_text(), f"{log.name}: the lifespan was not left")


async def _sql(target: TemporaryStore, statement: str) -> list[tuple[Any, ...]]:
    """Execute a statement on the tables of the bank."""
    if target.path is not None:
        connection = apsw.Connection(str(target.path))
        connection.set_busy_timeout(10_000)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()
    import asyncpg

    server = await asyncpg.connect(target.url)
    try:
        return [tuple(row) for row in await server.fetch(statement)]
    finally:
        await server.close()
