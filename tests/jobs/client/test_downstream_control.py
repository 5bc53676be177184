"""Breakers by hand: list, hold, release, reset."""

import asyncio

import pytest

from holdfast.bootstrap import Engine
from holdfast.jobs.client.downstream_control import UnknownDownstream
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.downstream_calls import DownstreamBusy
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.testing import VirtualClock


def use(tmp_path, scenario):
    app = App("docs")

    @app.job(downstream=Downstream("gateway"))
    def convert(ctx): ...

    @app.job(downstream=Downstream("quiet", breaker=None))
    def fetch(ctx): ...

    clock = VirtualClock()

    async def main():
        url = f"sqlite:///{tmp_path}/work.db"
        async with Engine(url, apps=[app], clock=clock) as engine:
            await scenario(engine, convert, fetch)

    asyncio.run(main())


async def claimed(engine):
    """Return how many jobs a worker gets."""
    request = ClaimRequest(10, ("default",), dict.fromkeys(engine.kinds))
    return len((await engine.store.tick("w", claim=request)).claims)


def test_all_downstreams_are_listed_by_name_with_their_state(tmp_path):
    async def scenario(engine, convert, fetch):
        assert [record.name for record in await engine.downstreams.list()] == ["gateway", "quiet"]
        await engine.downstreams.hold("quiet")
        assert await engine.downstreams.states() == {
            "gateway": CircuitState.CLOSED,
            "quiet": CircuitState.OPEN,
        }
        assert await engine.downstreams.state("gateway") is CircuitState.CLOSED

    use(tmp_path, scenario)


@pytest.mark.parametrize("name, job", [("gateway", 0), ("quiet", 1)])
def test_a_held_downstream_runs_no_job_until_it_is_reset(tmp_path, name, job):
    async def scenario(engine, *jobs):
        await engine.enqueue(jobs[job])
        record = await engine.downstreams.hold(name)
        assert record.circuit.held
        assert await claimed(engine) == 0
        record = await engine.downstreams.reset(name)
        assert record.circuit.state is CircuitState.CLOSED
        assert await claimed(engine) == 1

    use(tmp_path, scenario)


def test_holding_twice_or_releasing_a_closed_downstream_changes_nothing(tmp_path):
    async def scenario(engine, convert, fetch):
        before = await engine.downstreams.get("gateway")
        assert await engine.downstreams.release("gateway") == before
        held = await engine.downstreams.hold("gateway")
        assert await engine.downstreams.hold("gateway") == held

    use(tmp_path, scenario)


def test_a_released_downstream_runs_trial_jobs(tmp_path):
    async def scenario(engine, convert, fetch):
        for _ in range(9):
            await engine.enqueue(convert)
        await engine.downstreams.hold("gateway")
        record = await engine.downstreams.release("gateway")
        assert record.circuit.state is CircuitState.HALF_OPEN
        assert await claimed(engine) == 3

    use(tmp_path, scenario)


def test_a_downstream_without_a_breaker_is_closed_when_released(tmp_path):
    async def scenario(engine, convert, fetch):
        await engine.downstreams.hold("quiet")
        record = await engine.downstreams.release("quiet")
        assert record.circuit.state is CircuitState.CLOSED

    use(tmp_path, scenario)


def test_an_unknown_downstream_is_refused(tmp_path):
    async def scenario(engine, convert, fetch):
        for ask in (engine.downstreams.get, engine.downstreams.hold, engine.downstreams.state):
            with pytest.raises(TypeError, match="a downstream is named by a string, got 7"):
                await ask(7)
            with pytest.raises(UnknownDownstream, match="there is no downstream 'gatway'"):
                await ask("gatway")

    use(tmp_path, scenario)


def test_a_change_is_written_again_if_a_worker_wrote_first(tmp_path):
    async def scenario(engine, convert, fetch):
        write = engine.store.write_downstream
        races = iter([True, True, False])

        async def raced(record):
            if next(races):
                current = await engine.store.downstream(record.name)
                await write(current)
            return await write(record)

        engine.store.write_downstream = raced
        assert (await engine.downstreams.hold("gateway")).circuit.held
        assert (await engine.downstreams.get("gateway")).circuit.held

    use(tmp_path, scenario)


def test_constant_writes_by_workers_end_in_an_error(tmp_path):
    async def scenario(engine, convert, fetch):
        async def lost(record):
            return None

        engine.store.write_downstream = lost
        with pytest.raises(DownstreamBusy, match="'gateway' is being written by workers"):
            await engine.downstreams.hold("gateway")

    use(tmp_path, scenario)
