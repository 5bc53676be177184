"""Let a downstream fail and recover again and again, with fifty slots waiting for it.

Every claim's permit and every move of the breaker is in the ledger, so it can be said afterwards
who was let through when. While the breaker is open nothing may run but trials, never more of them
at once than it allows, and no attempt may be counted that was not made.
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
from campaigns.places import count, place, read_all
from campaigns.plan import Outcome, Plan
from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import Store
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing.downstream import Exchange, ScriptedDownstream

assert isinstance(GATEWAY.breaker, BreakerPolicy)
TRIALS = GATEWAY.breaker.trial_calls
_RETRY_LOAD = 1.2
_NORMAL = 60.0


class Weather:
    """What the downstream does now, and how many calls it has had."""

    def __init__(self) -> None:
        self.fails = False
        self.calls = 0

    async def behave(self, exchange: Exchange) -> None:
        """Answer after a moment."""
        self.calls += 1
        fails = self.fails
        await asyncio.sleep(0.02)
        await exchange.answer(503 if fails else 200, {}, b"")


def run(plan: Plan) -> Outcome:
    """Run the campaign."""
    weather = Weather()
    with (
        place(plan.store, plan.folder) as where,
        Ledger(plan.folder / "ledger") as ledger,
        ScriptedDownstream() as server,
        Fleet(
            where.url, ledger, plan.folder, concurrency=10, lease_seconds=20.0, extend_every=2.0
        ) as fleet,
    ):
        server.script(weather.behave)
        return asyncio.run(_run(plan, where.store(), ledger, fleet, weather, server.url))


async def _run(
    plan: Plan, store: Store, ledger: Ledger, fleet: Fleet, weather: Weather, url: str
) -> Outcome:
    outcome, cycles, each = Outcome(), plan.pick(10, 2), 500
    slowest, enqueued, chance = 0.0, 0, plan.chance()
    async with store:
        await store.declare_downstreams([GATEWAY.settings()])
        await fleet.start_ready(5)
        for _ in range(cycles):
            await store.enqueue(_calls(enqueued, each, url))
            enqueued += each
            await asyncio.sleep(0.3)
            weather.fails = True
            await asyncio.sleep(chance.uniform(2.0, 4.0))
            weather.fails = False
            began, total = time.monotonic(), enqueued

            async def normal(total: int = total) -> bool:
                return await count(store, "complete") == total

            back = await until(normal, _NORMAL)
            outcome.expect(back, f"not normal {_NORMAL:g} s after the downstream was well")
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
    released, uncounted = reports["released"], reports["uncounted"]
    counted = sum(job.attempt_count for job in stored.values())
    outcome.expect(
        counted + released + uncounted == claims.total(),
        f"{counted} attempts counted, {released + uncounted} given back, {claims.total()} claimed",
    )
    outcome.expect(
        weather.calls == counted + uncounted,
        f"{weather.calls} calls made, {counted} attempts counted and {uncounted} as trials",
    )
    load = weather.calls / enqueued
    outcome.expect(load <= _RETRY_LOAD, f"{load:.2f} calls a job, {_RETRY_LOAD} are allowed")
    assert record is not None
    outcome.expect(record.trips >= cycles, f"the breaker opened only {record.trips} times")
    outcome.figures |= {
        "cycles": cycles,
        "slots": 50,
        "jobs": enqueued,
        "calls": weather.calls,
        "calls_a_job": round(load, 3),
        "failed_trials": uncounted,
        "opened": record.trips,
        "trials_alive_at_most": most,
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


def judge_permits(lines: Sequence[Line], allowed: int) -> tuple[int, list[str]]:
    """Return how many trials were alive at once, and what was let through and should not have been.

    A trial is alive at least from the answer to its claim to the beginning of its report.
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
            findings.append(f"{line.job} was let through in generation {generation}, which is over")
        if trial is not None:
            end = ends.get((line.job, line.token), float("inf"))
            trials[generation] += [(line.ended, 1), (max(end, line.ended), -1)]
    most = 0
    for generation, marks in trials.items():
        alive = 0
        # Where one ends as another begins they were not alive together.
        for _, step in sorted(marks, key=lambda mark: (mark[0], mark[1])):
            alive += step
            most = max(most, alive)
            if alive > allowed:
                findings.append(f"{alive} trials were alive at once in generation {generation}")
    return most, findings
