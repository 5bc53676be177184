"""An undeclared keyed downstream: the claiming worker declares it, and its limits apply."""

import asyncio

from tests.support.workers import claim, rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.store_port import StoreUnusable
from holdfast.jobs.worker.late_declaration import LateDeclaration
from holdfast.resilience.breaker.transitions import Permit
from holdfast.testing import VirtualClock


def hosts(**settings):
    app = App("a")

    @app.job(downstream=Downstream("host", key=lambda args: args, **settings))
    async def fetch(ctx, args: str): ...

    return fetch.kind


def test_a_declaration_is_needed_only_for_a_keyed_downstream_without_a_permit():
    declarer, kind = LateDeclaration(None, VirtualClock()), hosts()
    assert declarer.is_needed(claim(downstream="host:x"), kind)
    assert not declarer.is_needed(claim(downstream="host:x", permit=Permit(0)), kind)
    assert not declarer.is_needed(claim(downstream="other"), kind)
    assert not declarer.is_needed(claim(), kind)


class DeclaredStore:
    def __init__(self):
        self.names = []
        self.fails = False

    async def declare_downstreams(self, settings):
        if self.fails:
            raise StoreUnusable("no")
        self.names += [each.name for each in settings]


def test_a_claim_before_the_declaration_is_released_and_one_after_it_is_run(caplog):
    store, clock, kind = DeclaredStore(), VirtualClock(), hosts()
    declarer, taken = LateDeclaration(store, clock), claim(downstream="host:x")

    async def go():
        began = clock.monotonic()
        await asyncio.sleep(1)
        assert await declarer.declare(taken, kind, began)
        assert await declarer.declare(taken, kind, began)
        assert set(store.names) == {"host:x"}
        await asyncio.sleep(1)
        assert not await declarer.declare(taken, kind, clock.monotonic())
        await asyncio.sleep(3600)  # it may have been deleted meanwhile
        assert await declarer.declare(taken, kind, clock.monotonic())
        store.fails = True
        assert not await declarer.declare(claim(downstream="host:y"), kind, began)

    clock.run(go())
    assert "host:y" in caplog.text


def test_of_many_declarations_only_some_are_remembered(monkeypatch):
    monkeypatch.setattr("holdfast.jobs.worker.late_declaration._MOST", 1)
    store, clock, kind = DeclaredStore(), VirtualClock(), hosts()
    declarer = LateDeclaration(store, clock)

    async def go():
        for name in ("host:x", "host:y", "host:x"):
            await asyncio.sleep(1)
            assert await declarer.declare(claim(downstream=name), kind, clock.monotonic())

    clock.run(go())
    assert store.names == ["host:x", "host:y", "host:x"]


def test_an_undeclared_keyed_downstream_is_limited_too(tmp_path):
    app, alive, most = App("a"), 0, 0

    @app.job(downstream=Downstream("host", key=lambda args: args, concurrency=1))
    async def fetch(ctx, args: str):
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        await asyncio.sleep(0.001)
        alive -= 1

    async def go():
        async with rig(tmp_path, app, concurrency=5) as it:
            names = [f"j{n}" for n in range(10)]
            await it.enqueue(fetch, *names, arguments='"x"', downstream="host:x")
            await it.run()
            assert {await it.status(name) for name in names} == {"complete"}
            jobs = [await it.store.get(name) for name in names]
            assert {job.attempt_count for job in jobs} == {1}
        assert most == 1

    asyncio.run(go())
