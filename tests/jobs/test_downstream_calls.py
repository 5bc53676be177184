"""The shared breaker for calls outside of jobs."""

import asyncio
from contextlib import suppress

import pytest
from tests.support.waiting import until

from holdfast import App, BreakerPolicy, CircuitOpenError, Engine, JobContext, Permanent
from holdfast.jobs.downstream_calls import DownstreamBusy
from holdfast.jobs.downstreams.record import Verdict
from holdfast.resilience.breaker.transitions import CircuitState, Permit
from holdfast.testing import VirtualClock

RULE = BreakerPolicy(
    consecutive_failures=None, failure_rate=0.5, window_calls=20, open_for=30, trial_calls=3
)


@pytest.fixture
def run(tmp_path):
    """Run a scenario with an engine and its clock."""

    def run(scenario):
        async def main():
            clock = VirtualClock()
            async with Engine(f"sqlite:///{tmp_path}/work.db", clock=clock) as engine:
                await engine.calls.declare("llm", RULE)
                await scenario(engine, clock)

        asyncio.run(main())

    return run


async def call(engine, verdict):
    """Make a call that ends as `verdict`; False if it was refused."""
    admission = await engine.calls.admit("llm")
    if admission.permit is None:
        return False
    await engine.calls.report("llm", admission.permit, verdict, "GW_5XX")
    return True


async def open_breaker(engine):
    for number in range(20):
        assert await call(engine, Verdict.SUCCESS if number < 9 else Verdict.FAILURE)


def test_the_breaker_opens_above_half_of_twenty_and_closes_after_three_trials(run):
    async def scenario(engine, clock):
        for number in range(20):
            assert await call(engine, Verdict.SUCCESS if number % 2 else Verdict.FAILURE)
        assert await engine.downstreams.state("llm") is CircuitState.CLOSED
        assert await call(engine, Verdict.FAILURE)  # a failure leaves the window, one comes
        assert await call(engine, Verdict.FAILURE)  # a success leaves it: 11 of 20
        assert await engine.downstreams.state("llm") is CircuitState.OPEN
        admission = await engine.calls.admit("llm")
        assert (admission.permit, admission.wait) == (None, 30.0)
        clock.advance(30)
        trials = [await engine.calls.admit("llm") for _ in range(4)]
        assert [trial.permit is not None for trial in trials] == [True, True, True, False]
        for trial in trials[:3]:
            await engine.calls.report("llm", trial.permit, Verdict.SUCCESS)
        assert await engine.downstreams.state("llm") is CircuitState.CLOSED
        assert await call(engine, Verdict.SUCCESS)

    run(scenario)


def test_a_trial_keeps_its_place_while_its_call_is_extended(run):
    async def scenario(engine, clock):
        await open_breaker(engine)
        clock.advance(30)
        trials = [await engine.calls.admit("llm", 60.0) for _ in range(3)]
        clock.advance(50)  # past `open_for`
        assert (await engine.calls.admit("llm")).permit is None
        await engine.calls.extend("llm", trials[0].permit, 60.0)
        clock.advance(50)  # the other two have ended without a report
        again = [await engine.calls.admit("llm", 60.0) for _ in range(3)]
        assert [trial.permit is not None for trial in again] == [True, True, False]
        for trial in (trials[0], *again[:2]):
            await engine.calls.report("llm", trial.permit, Verdict.SUCCESS)
        assert await engine.downstreams.state("llm") is CircuitState.CLOSED
        before = await engine.downstreams.get("llm")
        for permit in (trials[0].permit, Permit(before.circuit.generation)):
            await engine.calls.extend("llm", permit, 60.0)
        assert await engine.downstreams.get("llm") == before

    run(scenario)


def test_a_call_that_says_nothing_of_the_downstream_is_not_counted(run):
    async def scenario(engine, clock):
        before = await engine.downstreams.get("llm")
        for _ in range(30):
            assert await call(engine, Verdict.NEITHER)
        assert await engine.downstreams.get("llm") == before

    run(scenario)


def test_a_held_downstream_refuses_calls_without_a_time(run):
    async def scenario(engine, clock):
        await engine.downstreams.hold("llm")
        admission = await engine.calls.admit("llm")
        assert (admission.permit, admission.wait) == (None, 0.0)

    run(scenario)


def test_an_unknown_downstream_admits_and_counts_nothing(run):
    async def scenario(engine, clock):
        admission = await engine.calls.admit("unknown")
        assert admission.permit == Permit(0)
        await engine.calls.report("unknown", admission.permit, Verdict.FAILURE)

    run(scenario)


def test_declaring_a_known_downstream_changes_its_breaker_only(run):
    async def scenario(engine, clock):
        before = await engine.downstreams.get("llm")
        await engine.calls.declare("llm", BreakerPolicy(consecutive_failures=2))
        after = await engine.downstreams.get("llm")
        assert after.settings.breaker.consecutive_failures == 2
        assert after.settings.mode == before.settings.mode

    run(scenario)


def test_a_record_that_others_write_all_the_time_is_given_up(run, monkeypatch):
    async def scenario(engine, clock):
        await open_breaker(engine)
        clock.advance(30)

        async def lose(record, *, now=None):
            return None

        monkeypatch.setattr(engine.store, "write_downstream", lose)
        with pytest.raises(DownstreamBusy):
            await engine.calls.admit("llm")
        generation = (await engine.downstreams.get("llm")).circuit.generation
        await engine.calls.report("llm", Permit(generation - 1), Verdict.FAILURE)
        monkeypatch.undo()
        trial = await engine.calls.admit("llm")
        monkeypatch.setattr(engine.store, "write_downstream", lose)
        with pytest.raises(DownstreamBusy):
            await engine.calls.report("llm", trial.permit, Verdict.SUCCESS)
        with pytest.raises(DownstreamBusy):
            await engine.calls.extend("llm", trial.permit, 600.0)

    run(scenario)


def test_calls_that_were_made_without_asking_are_counted(run):
    rule = BreakerPolicy(consecutive_failures=2, open_for=30)

    async def scenario(engine, clock):
        await engine.calls.count("site", rule)
        with pytest.raises(LookupError):  # a success needs no record
            await engine.downstreams.get("site")
        for code in ("FETCH_5XX", None, "FETCH_5XX"):
            await engine.calls.count("site", rule, code)
        assert (await engine.downstreams.get("site")).circuit.streak == 1
        for _ in range(3):  # the third says nothing new
            await engine.calls.count("site", rule, "FETCH_TIMEOUT")
        record = await engine.downstreams.get("site")
        assert (record.circuit.state, record.trips) == (CircuitState.OPEN, 1)
        assert record.last_error == "FETCH_TIMEOUT"

    run(scenario)


def test_a_guarded_call_counts_its_outcome_and_is_refused_while_the_breaker_is_open(run):
    async def fail():
        raise ConnectionError("refused")

    async def answer():
        return 42

    async def scenario(engine, clock):
        assert await engine.calls.run("llm", answer) == 42
        for _ in range(20):
            with pytest.raises(ConnectionError):
                await engine.calls.run("llm", fail)
            if await engine.downstreams.state("llm") is CircuitState.OPEN:
                break
        with pytest.raises(CircuitOpenError) as refused:
            await engine.calls.run("llm", answer)
        assert refused.value.retry_at == pytest.approx(clock.wall() + 30)
        clock.advance(30)
        assert [await engine.calls.run("llm", answer) for _ in range(3)] == [42] * 3
        assert await engine.downstreams.state("llm") is CircuitState.CLOSED

    run(scenario)


def test_a_handler_counts_calls_to_other_downstreams_than_its_own(tmp_path):
    app = App("calls")

    @app.job()
    async def call(ctx: JobContext) -> None:
        await ctx.engine.calls.count("other", RULE, "GW_5XX")

    async def scenario():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            await engine.enqueue(call)
            await engine.work(until_idle=True)
            return await engine.downstreams.get("other")

    assert asyncio.run(scenario()).circuit.streak == 1


def test_a_trial_that_outlasts_the_breakers_own_time_keeps_its_place_and_counts(run):
    """Three slow trials, tried by others all the while: no fourth, and their success closes it."""

    async def fail():
        raise ConnectionError("refused")

    async def scenario(engine, clock):
        for _ in range(20):
            with suppress(ConnectionError, CircuitOpenError):
                await engine.calls.run("llm", fail)
        clock.advance(30)
        done = asyncio.Event()
        running = [asyncio.create_task(engine.calls.run("llm", done.wait)) for _ in range(3)]

        async def all_are_trials():
            return len((await engine.downstreams.get("llm")).circuit.trials) == 3

        await until(all_are_trials)
        for _ in range(12):
            clock.advance(10)
            with pytest.raises(CircuitOpenError):
                await engine.calls.run("llm", fail)
        done.set()
        await asyncio.gather(*running)
        assert await engine.downstreams.state("llm") is CircuitState.CLOSED

    run(scenario)


def test_an_error_of_the_caller_does_not_count_in_a_guarded_call(run):
    async def refuse():
        raise Permanent("GW_4XX", "no")

    async def scenario(engine, clock):
        for _ in range(40):
            with pytest.raises(Permanent):
                await engine.calls.run("llm", refuse)
        assert await engine.downstreams.state("llm") is CircuitState.CLOSED

    run(scenario)


def test_a_guarded_call_whose_outcome_cannot_be_counted_still_answers(run, monkeypatch, caplog):
    async def scenario(engine, clock):
        async def busy(*_):
            raise DownstreamBusy("llm")

        monkeypatch.setattr(engine.calls, "report", busy)

        async def answer():
            return 1

        assert await engine.calls.run("llm", answer) == 1
        assert "was not counted" in caplog.text

    run(scenario)
