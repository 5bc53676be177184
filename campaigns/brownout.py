"""A downstream fails and recovers repeatedly, while workers with fifty slots call it.

The ledger records the permit of every claim and every transition of the breaker. While the breaker
is open only trial calls may run, never more at once than the policy allows, and every counted
attempt must have called the downstream.
"""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from campaigns.checker import judge
from campaigns.fleet import Fleet, until
from campaigns.jobs import GATEWAY, call
from campaigns.ledger import Ledger, Line
from campaigns.plan import CampaignOutcome, Plan
from campaigns.temporary_store import count, read_all, temporary_store
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import Store
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing.downstream import Exchange, ScriptedDownstream

assert isinstance(GATEWAY.breaker, BreakerPolicy)
TRIALS = GATEWAY.breaker.trial_calls
_RETRY_LOAD = 1.2
_RECOVERY = 60.0


class FlakyDownstream:
    """A downstream that can be switched between success and failure; it counts its calls."""

    def __init__(self) -> None:
        self.fails = False
        self.calls = 0

    async def behave(self, exchange: Exchange) -> None:
        """Answer after 20 ms."""
        self.calls += 1
        fails = self.fails
        await asyncio.sleep(0.02)
        await exchange.answer(503 if fails else 200, {}, b"")


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    downstream = FlakyDownstream()
    with (
        temporary_store(plan.store, plan.folder) as target,
        Ledger(plan.folder / "ledger") as ledger,
        ScriptedDownstream() as server,
        Fleet(
            target.url, ledger, plan.folder, concurrency=10, lease_seconds=20.0, extend_every=2.0
        ) as fleet,
    ):
        server.script(downstream.behave)
        return asyncio.run(_run(plan, target.store(), ledger, fleet, downstream, server.url))


async def _run(
    plan: Plan, store: Store, ledger: Ledger, fleet: Fleet, downstream: FlakyDownstream, url: str
) -> CampaignOutcome:
    outcome, cycles, each = CampaignOutcome(), plan.pick(10, 2), 500
    slowest, enqueued, rng = 0.0, 0, plan.rng()
    async with store:
        await store.declare_downstreams([GATEWAY.settings()])
        await fleet.start_ready(5)
        for _ in range(cycles):
            await store.enqueue(_calls(enqueued, each, url))
            enqueued += each
            await asyncio.sleep(0.3)
            downstream.fails = True
            await asyncio.sleep(rng.uniform(2.0, 4.0))
            downstream.fails = False
            began, total = time.monotonic(), enqueued

            async def all_complete(total: int = total) -> bool:
                return await count(store, "complete") == total

            back = await until(all_complete, _RECOVERY)
            outcome.expect(
                back, f"jobs not complete {_RECOVERY:g} s after the downstream recovered"
            )
            slowest = max(slowest, time.monotonic() - began)
        await fleet.stop_all()
        stored = await read_all(store)
        record = await store.downstream("gateway")
    lines = ledger.lines()
    judgement = judge([f"c{n}" for n in range(enqueued)], [], stored, lines)
    outcome.findings += judgement.findings
    most, found = judge_permits(lines, TRIALS)
    outcome.findings += found
    claims = Counter(line.job for line in lines if line.what == "claim")
    reports = Counter(line.detail for line in lines if line.what == "report" and line.accepted)
    released = reports["released"]
    counted = sum(job.attempt_count for job in stored.values())
    outcome.expect(
        counted + released == claims.total(),
        f"{counted} attempts counted, {released} released, {claims.total()} claimed",
    )
    outcome.expect(
        downstream.calls == counted, f"{downstream.calls} calls made, {counted} attempts counted"
    )
    load = downstream.calls / enqueued
    outcome.expect(load <= _RETRY_LOAD, f"{load:.2f} calls per job, at most {_RETRY_LOAD} allowed")
    assert record is not None
    outcome.expect(record.trips >= cycles, f"the breaker opened only {record.trips} times")
    outcome.figures |= {
        "cycles": cycles,
        "slots": 50,
        "jobs": enqueued,
        "calls": downstream.calls,
        "calls_per_job": round(load, 3),
        "failed_trials": _failed_trials(lines),
        "opened": record.trips,
        "max_concurrent_trials": most,
        "trial_calls": TRIALS,
        "slowest_recovery_seconds": round(slowest, 1),
        **judgement.figures(),
    }
    return outcome


def _calls(first: int, total: int, url: str) -> list[NewJob]:
    kind = call.kind
    return [
        NewJob(
            f"c{n}",
            kind.name,
            arguments=json.dumps(url),
            downstream="gateway",
            max_attempts=kind.policy.max_attempts,
        )
        for n in range(first, first + total)
    ]


def _failed_trials(lines: Sequence[Line]) -> int:
    trials = {
        (line.job, line.token)
        for line in lines
        if line.what == "claim" and line.permit is not None and line.permit[1] is not None
    }
    failed = [line for line in lines if line.what == "report" and line.detail == "retry"]
    return sum((line.job, line.token) in trials for line in failed)


def judge_permits(lines: Sequence[Line], allowed: int) -> tuple[int, list[str]]:
    """Return the most trials that ran at once, and findings about permits that were not allowed.

    A trial runs at least from the answer to its claim to the start of its report.
    """
    moved = sorted((line.ended, line.token) for line in lines if line.what == "moved")
    ends = {(line.job, line.token): line.began for line in lines if line.what == "report"}
    findings = []
    trials: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for line in lines:
        if line.what != "claim" or line.permit is None:
            continue
        generation, trial = line.permit
        if any(ended < line.began and later > generation for ended, later in moved):
            findings.append(f"{line.job} was permitted in generation {generation}, which had ended")
        if trial is not None:
            end = ends.get((line.job, line.token), float("inf"))
            trials[generation] += [(line.ended, 1), (max(end, line.ended), -1)]
    most = 0
    for generation, marks in trials.items():
        running = 0
        # A trial that ends at the instant another begins does not overlap with it.
        for _, step in sorted(marks, key=lambda mark: (mark[0], mark[1])):
            running += step
            most = max(most, running)
            if running > allowed:
                findings.append(f"{running} trials ran at once in generation {generation}")
    return most, findings
