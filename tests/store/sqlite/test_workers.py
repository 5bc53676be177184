"""Which workers are registered, and when they are forgotten."""

import asyncio
from contextlib import closing

import apsw
import pytest

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.sqlite.process_identity import ProcessIdentity
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock

HOUR = 3600.0
OF_ANOTHER_BOOT = {"boot": "another"}
OF_ANOTHER_CONTAINER = {"namespace": "pid:[1]"}


def play(tmp_path, scenario):
    async def main():
        clock = VirtualClock()
        async with SQLiteStore(tmp_path / "jobs.db", clock=clock) as store:
            await scenario(store, clock)

    asyncio.run(main())


def fetch(tmp_path, sql, *values):
    with closing(apsw.Connection(str(tmp_path / "jobs.db"))) as connection:
        connection.set_busy_timeout(5000)
        return connection.execute(sql, values).fetchall()


def registered(tmp_path):
    return {name for (name,) in fetch(tmp_path, "SELECT id FROM holdfast_workers")}


def move_elsewhere(tmp_path, worker, where):
    """Let a registered worker be one of another boot or of another container."""
    for column, value in where.items():
        fetch(tmp_path, f"UPDATE holdfast_workers SET {column} = ? WHERE id = ?", value, worker)


async def claim(store, worker, lease_seconds):
    await store.enqueue([NewJob("job", "work")])
    request = ClaimRequest(1, ("default",), {"work": None}, lease_seconds)
    (claim,) = (await store.tick(worker, (), request)).claims
    return claim


@pytest.mark.parametrize("where", [OF_ANOTHER_BOOT, OF_ANOTHER_CONTAINER])
def test_a_worker_that_cannot_be_inspected_is_forgotten_after_an_hour_of_silence(tmp_path, where):
    async def scenario(store, clock):
        await store.heartbeats().register("gone")
        move_elsewhere(tmp_path, "gone", where)
        clock.advance(HOUR - 1)
        await store.rescue()
        assert registered(tmp_path) == {"gone"}
        clock.advance(1)
        await store.rescue()
        assert registered(tmp_path) == set()

    play(tmp_path, scenario)


def test_a_worker_with_jobs_is_not_forgotten_before_they_are_rescued(tmp_path):
    async def scenario(store, clock):
        await store.heartbeats().register("gone")
        move_elsewhere(tmp_path, "gone", OF_ANOTHER_CONTAINER)
        await claim(store, "gone", 2 * HOUR)
        clock.advance(HOUR)
        await store.rescue()
        assert registered(tmp_path) == {"gone"}
        clock.advance(HOUR)
        assert (await store.rescue()).requeued == ("job",)
        assert registered(tmp_path) == set()

    play(tmp_path, scenario)


def test_a_living_worker_is_not_forgotten_though_it_is_idle_and_the_clock_jumps(tmp_path):
    async def scenario(store, clock):
        heartbeats = store.heartbeats()
        for _ in range(200):
            await heartbeats.register("idle")
            clock.advance(60)
            await store.rescue()
            assert registered(tmp_path) == {"idle"}
        await heartbeats.register("idle")
        clock.step_wall(2 * HOUR)
        await store.rescue()
        assert registered(tmp_path) == {"idle"}

    play(tmp_path, scenario)


def test_a_worker_that_was_forgotten_registers_again(tmp_path):
    """As after a stop of the process that was longer than an hour."""

    async def scenario(store, clock):
        heartbeats = store.heartbeats()
        await heartbeats.register("stopped")
        clock.advance(2 * HOUR)
        await store.rescue()
        assert registered(tmp_path) == set()
        await heartbeats.register("stopped")
        assert registered(tmp_path) == {"stopped"}

    play(tmp_path, scenario)


def test_a_worker_that_ended_is_forgotten_with_its_last_job(tmp_path):
    """It left a job behind, and its process lives on."""

    async def scenario(store, clock):
        heartbeats = store.heartbeats()
        await heartbeats.register("ended")
        await claim(store, "ended", 60.0)
        await heartbeats.close()
        assert registered(tmp_path) == {"ended"}
        clock.advance(HOUR)
        assert (await store.rescue()).requeued == ("job",)
        assert registered(tmp_path) == set()

    play(tmp_path, scenario)


def test_where_processes_cannot_be_told_apart_no_worker_is_registered(tmp_path, monkeypatch):
    monkeypatch.setattr(ProcessIdentity, "own", classmethod(lambda cls: None))

    async def scenario(store, clock):
        await store.heartbeats().register("w")
        assert registered(tmp_path) == set()
        assert await store.lead("maintenance", "w", 10.0) is not None
        assert await store.lead("maintenance", "other", 10.0) is None
        await store.rescue()

    play(tmp_path, scenario)
