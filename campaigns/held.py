"""A million held jobs of one downstream: claims stay fast, and the release starts with trials.

Claims are timed alternately on this store and on one without held jobs, so that other load on the
machine affects both equally.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from campaigns.fleet import until
from campaigns.plan import CampaignOutcome, Plan, echo
from campaigns.temporary_store import TemporaryStore, count, temporary_store
from holdfast.bootstrap import migrate, open_store
from holdfast.jobs.client.downstream_control import DownstreamControl
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.model import Claim, Completed, Finished, NewJob
from holdfast.jobs.store_port import ClaimRequest, Store
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.worker import Worker
from holdfast.resilience.policy import BreakerPolicy

RATIO = 1.3
TRIALS = 3

app = App("held")

GATEWAY = Downstream(
    "gateway", breaker=BreakerPolicy(trial_calls=TRIALS, open_for=600.0), ramp_seconds=5.0
)
ELSEWHERE = Downstream("elsewhere")


class _Gate:
    """Counts the calls in progress, and blocks them until it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.running = 0
        self.most = 0


_gate: list[_Gate] = []


@app.job(downstream=GATEWAY)
async def call(ctx: JobContext) -> None:  # noqa: ARG001 - the signature of a handler
    """Wait until the gate is opened."""
    gate = _gate[-1]
    gate.running += 1
    gate.most = max(gate.most, gate.running)
    await gate.opened.wait()
    gate.running -= 1


@app.job(downstream=ELSEWHERE)
async def other(ctx: JobContext) -> None:
    """Do nothing."""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    with temporary_store(plan.store, plan.folder) as target:
        return asyncio.run(_run(plan, target))


async def _run(plan: Plan, target: TemporaryStore) -> CampaignOutcome:
    outcome, held = CampaignOutcome(), plan.pick(1_000_000, 50_000)
    rounds = plan.pick(300, 100)
    async with _two_stores(target, plan) as (store, empty):
        for each in (store, empty):
            await each.declare_downstreams([GATEWAY.settings(), ELSEWHERE.settings()])
        await DownstreamControl(store).hold("gateway")
        began = time.monotonic()
        await _fill(store, "held.call", "gateway", held)
        echo(f"    {held} jobs held after {time.monotonic() - began:.0f} s")
        for each in (store, empty):
            await _fill(each, "held.other", "elsewhere", 10 * rounds + 500)
        with_held, without = await _time_claims(store, empty, rounds)
        ratio = with_held / without
        outcome.expect(ratio <= RATIO, f"a claim takes {ratio:.2f} times as long with held jobs")
        await _run_others(store, outcome, held)
        most = await _reopen(store, outcome)
        outcome.figures |= {
            "held": held,
            "claims_timed": rounds,
            "claim_ms_with_held": round(with_held, 3),
            "claim_ms_without": round(without, 3),
            "ratio": round(ratio, 3),
            "max_concurrent_trials": most,
            "trial_calls": TRIALS,
        }
    return outcome


@asynccontextmanager
async def _two_stores(target: TemporaryStore, plan: Plan) -> AsyncIterator[tuple[Store, Store]]:
    if target.server is None:
        url = f"sqlite:///{plan.folder / 'empty.db'}"
    else:
        url = target.server.url(target.server.create_database())
    await migrate(url)
    async with target.store() as store, open_store(url) as empty:
        yield store, empty


async def _fill(store: Store, kind: str, downstream: str, total: int) -> None:
    for first in range(0, total, 5000):
        last = min(total, first + 5000)
        await store.enqueue(
            [NewJob(f"{kind}-{n}", kind, downstream=downstream) for n in range(first, last)]
        )


async def _time_claims(store: Store, empty: Store, rounds: int) -> tuple[float, float]:
    """Return the median milliseconds of a tick that finishes ten jobs and claims ten."""
    request = ClaimRequest(10, ("default",), {kind.name: None for kind in app.kinds}, 60.0)
    times: dict[int, list[float]] = {id(store): [], id(empty): []}
    running: dict[int, tuple[Claim, ...]] = {id(store): (), id(empty): ()}
    for number in range(rounds):
        for each in (store, empty) if number % 2 else (empty, store):
            finished = [Finished(claim.lease, Completed()) for claim in running[id(each)]]
            began = time.perf_counter()
            result = await each.tick("timer", finished, request)
            times[id(each)].append(1000 * (time.perf_counter() - began))
            assert len(result.claims) == 10
            running[id(each)] = result.claims
    for each in (store, empty):
        await each.tick(
            "timer", [Finished(claim.lease, Completed()) for claim in running[id(each)]]
        )
    return statistics.median(times[id(store)]), statistics.median(times[id(empty)])


async def _run_others(store: Store, outcome: CampaignOutcome, held: int) -> None:
    """Run the remaining jobs of the other downstream; held jobs must stay untouched."""
    kinds = {kind.name: kind for kind in app.kinds}
    async with asyncio.timeout(60):
        await Worker(store, kinds, WorkerOptions(concurrency=20)).run(until_idle=True)
    lanes = {lane.downstream: lane for lane in (await store.stats()).lanes}
    outcome.expect(
        lanes["elsewhere"].ready == 0, f"jobs of the other lane did not run: {lanes['elsewhere']}"
    )
    outcome.expect(lanes["gateway"].ready == held, f"held jobs were claimed: {lanes['gateway']}")
    sample = await store.get("held.call-0")
    assert sample is not None
    outcome.expect(sample.held and sample.attempt_count == 0, f"a held job was attempted: {sample}")


async def _reopen(store: Store, outcome: CampaignOutcome) -> int:
    """Release the downstream; return the most trials that ran at once before it closed."""
    gate = _Gate()
    _gate.append(gate)
    kinds = {kind.name: kind for kind in app.kinds}
    control = DownstreamControl(store)
    before = await count(store, "complete")
    workers = [
        Worker(store, kinds, WorkerOptions(concurrency=25, poll_interval=0.05)) for _ in range(2)
    ]
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    await control.release("gateway")

    async def trying() -> bool:
        return gate.running >= TRIALS

    outcome.expect(await until(trying, 20), "no trial ran after the release")
    await asyncio.sleep(1.5)
    most = gate.most
    outcome.expect(most == TRIALS, f"{most} trials ran at once, {TRIALS} are allowed")
    gate.opened.set()

    async def completing() -> bool:
        return await count(store, "complete") > before + 20

    outcome.expect(await until(completing, 30), "released jobs do not complete after the trials")
    state = await control.state("gateway")
    outcome.expect(str(state) == "CLOSED", f"the circuit is {state} after its trials")
    for worker in workers:
        worker.stop()
    await asyncio.gather(*tasks)
    return most
