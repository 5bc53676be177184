"""Probes: a successful one starts the trial calls of an open downstream early."""

import asyncio
import time
from dataclasses import replace
from functools import partial

import pytest
from tests.support.workers import rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.downstreams.record import with_circuit
from holdfast.jobs.job_events import CircuitMoved, ProbeRan
from holdfast.jobs.maintenance.probes import Probes
from holdfast.resilience.breaker.transitions import Cause, CircuitState, move
from holdfast.resilience.policy import BreakerPolicy
from holdfast.testing import VirtualClock

BREAKER = BreakerPolicy(consecutive_failures=1, open_for=600, trial_calls=2)


def probed(probe, **fields):
    app = App("a")

    @app.job(downstream=Downstream("gw", breaker=BREAKER, probe=probe, **fields))
    async def call(ctx, args: str): ...

    return app


async def tripped(store, name="gw", cause=Cause.STREAK):
    record = await store.downstream(name)
    now = await store.ping()
    circuit = move(record.circuit, cause, BREAKER, now)
    return await store.write_downstream(with_circuit(record, circuit, now))


async def state(store, name="gw"):
    return (await store.downstream(name)).state_at(await store.ping())


def service(it, clock):
    return Probes(it.store, it.app.kinds, clock=clock, interval=1.0, listeners=[it.told])


async def well_async():
    return None


@pytest.mark.parametrize("probe", [lambda: True, well_async, partial(well_async)])
def test_a_successful_probe_starts_trials_and_does_not_close_the_circuit(tmp_path, probe):
    async def go():
        async with rig(tmp_path, probed(probe)) as it:
            await tripped(it.store)
            assert await service(it, VirtualClock()).round() == 1
            record = await it.store.downstream("gw")
            assert record.circuit.state is CircuitState.HALF_OPEN
            assert (record.circuit.successes, record.trips) == (0, 1)
            assert [event.ok for event in it.told.of(ProbeRan)] == [True]
            assert it.told.of(CircuitMoved)[0].state == "HALF_OPEN"

    asyncio.run(go())


def broken():
    raise ConnectionError("still down")


@pytest.mark.parametrize("probe, says", [(lambda: False, "returned False"), (broken, "still down")])
def test_a_probe_that_fails_changes_nothing(tmp_path, probe, says):
    async def go():
        async with rig(tmp_path, probed(probe)) as it:
            before = await tripped(it.store)
            assert await service(it, VirtualClock()).round() == 0
            assert await it.store.downstream("gw") == before
            assert says in it.told.of(ProbeRan)[0].error

    asyncio.run(go())


def test_a_hanging_probe_times_out(tmp_path):
    async def hang():
        await asyncio.sleep(600)

    async def go():
        async with rig(tmp_path, probed(hang, probe_every=0.05)) as it:
            await tripped(it.store)
            began = time.monotonic()
            assert await service(it, VirtualClock()).round() == 0
            assert time.monotonic() - began < 60
            assert not it.told.of(ProbeRan)[0].ok

    asyncio.run(go())


def test_probes_run_only_while_open_and_as_often_as_declared(tmp_path):
    asked = []

    def probe():
        asked.append(1)
        return False

    async def go():
        async with rig(tmp_path, probed(probe, probe_every=10.0)) as it:
            clock = VirtualClock()
            probes = service(it, clock)
            await probes.round()
            assert asked == []
            await tripped(it.store)
            for _ in range(3):
                await probes.round()
            assert len(asked) == 1
            clock.advance(10)
            await probes.round()
            assert len(asked) == 2

    asyncio.run(go())


def test_after_failed_trials_the_next_probe_waits(tmp_path):
    async def go():
        async with rig(tmp_path, probed(lambda: True, probe_every=10.0)) as it:
            await tripped(it.store)
            await it.store.write_downstream(
                replace(await it.store.downstream("gw"), failed_rounds=1)
            )
            assert await service(it, VirtualClock()).round() == 0
            assert it.told.of(ProbeRan) == []
            record = await it.store.downstream("gw")
            earlier = replace(record.circuit, open_until=record.circuit.open_until - 20)
            await it.store.write_downstream(replace(record, circuit=earlier))
            assert await service(it, VirtualClock()).round() == 1

    asyncio.run(go())


def test_a_manually_held_downstream_is_not_probed(tmp_path):
    async def go():
        async with rig(tmp_path, probed(lambda: True)) as it:
            await tripped(it.store, cause=Cause.HOLD)
            assert await service(it, VirtualClock()).round() == 0
            assert it.told.of(ProbeRan) == []
            assert await state(it.store) is CircuitState.OPEN

    asyncio.run(go())


def test_a_probe_is_given_the_key_of_its_downstream(tmp_path):
    keys = []

    async def go():
        app = probed(keys.append, key=lambda host: host)
        async with rig(tmp_path, app) as it:
            settings = app.kinds[0].downstream.settings("gw:example.org")
            await it.store.declare_downstreams([settings])
            await tripped(it.store, "gw:example.org")
            assert await service(it, VirtualClock()).round() == 1
            assert keys == ["example.org"]

    asyncio.run(go())


def test_a_concurrent_change_of_the_record_is_kept(tmp_path):
    async def go():
        async with rig(tmp_path, probed(well_async)) as it:
            before = await tripped(it.store)
            await it.store.write_downstream(replace(before, trips=7))

            class Stale:
                def __getattr__(self, name):
                    return getattr(it.store, name)

                async def downstreams(self):
                    return (before,)

            probes = Probes(
                Stale(), it.app.kinds, clock=VirtualClock(), interval=1.0, listeners=[it.told]
            )
            assert await probes.round() == 0
            assert (await it.store.downstream("gw")).trips == 7

    asyncio.run(go())


def test_without_probes_no_records_are_read(tmp_path):
    async def go():
        async with rig(tmp_path, probed(None)) as it:
            probes = service(it, VirtualClock())
            assert await probes.round() == 0
            assert probes.interval == 3600.0

    asyncio.run(go())
