"""Workers whose clocks are an hour ahead and an hour behind: nothing may change.

On PostgreSQL only the database's clock decides leases, delays and deadlines. On SQLite all
processes share the machine's clock, so the clocks are not shifted there. No worker is killed: each
job must run once, also a job that runs for longer than its lease.
"""

import asyncio

from msgspec.structs import replace

from campaigns.checker import judge
from campaigns.fleet import Fleet, until
from campaigns.kill import new_jobs
from campaigns.ledger import Ledger
from campaigns.plan import CampaignOutcome, Plan
from campaigns.temporary_store import count, read_all, temporary_store
from holdfast.jobs.store_port import Store

HOUR = 3600.0
LEASE = 4.0


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    with (
        temporary_store(plan.store, plan.folder) as target,
        Ledger(plan.folder / "ledger") as ledger,
        Fleet(target.url, ledger, plan.folder, lease_seconds=LEASE, extend_every=0.5) as fleet,
    ):
        return asyncio.run(_run(plan, target.store(), ledger, fleet))


async def _run(plan: Plan, store: Store, ledger: Ledger, fleet: Fleet) -> CampaignOutcome:
    outcome, total = CampaignOutcome(), plan.pick(2000, 200)
    async with store:
        for skew in (HOUR, -HOUR, 0.0) if plan.store == "postgres" else (0.0, 0.0, 0.0):
            await fleet.start(skew=skew).ready()
        began = await store.ping()
        jobs = new_jobs(total, plan.rng(), 0.4)
        jobs[:3] = [replace(job, arguments=str(1.7 * LEASE)) for job in jobs[:3]]
        later = [replace(job, run_at=began + 2.0, deadline_at=began + 600.0) for job in jobs[::2]]
        await store.enqueue([*jobs[1::2], *later])

        async def drained() -> bool:
            return await count(store, "complete") + await count(store, "failed") == total

        outcome.expect(await until(drained, 120.0), "the jobs did not finish in time")
        ended = await store.ping()
        stored = await read_all(store)
        for job in later:
            found = await store.get(job.id)
            assert found is not None
            on_time = found.started_at is not None and began + 2.0 <= found.started_at <= ended
            outcome.expect(
                on_time,
                f"{job.id} was started at {found.started_at}, which is too early or too late",
            )
        await fleet.stop_all()
    lines = ledger.lines()
    judgement = judge([job.id for job in jobs], [], stored, lines)
    outcome.findings += judgement.findings
    again = sum(job.attempt_count > 1 for job in stored.values())
    outcome.expect(again == 0, f"{again} jobs were attempted again, but no worker had failed")
    claiming = len({line.worker for line in lines if line.what == "claim"})
    outcome.expect(claiming == 3, f"only {claiming} of 3 workers claimed jobs")
    outcome.figures |= {"jobs": total, "run_again": again, **judgement.figures()}
    return outcome
