"""Records of keyed downstreams are deleted page by page once nothing uses them."""

import asyncio

from tests.support.workers import rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.maintenance.unused_downstreams import UnusedDownstreams


def test_unused_hosts_are_deleted_one_page_in_each_round(tmp_path):
    app = App("a")

    @app.job(downstream=Downstream("host", key=lambda args: args))
    async def fetch(ctx, args: str): ...

    @app.job(downstream=Downstream("mill"))
    async def grind(ctx): ...

    async def go():
        async with rig(tmp_path, app, maintenance=None) as it:
            hosts = fetch.kind.downstream
            names = [f"host:{number}" for number in range(5)]
            await it.store.declare_downstreams([hosts.settings(name) for name in names])
            await it.store.declare_downstreams([grind.kind.downstream.settings()])
            await it.enqueue(fetch, "j", arguments='"1"', downstream="host:1")
            service = UnusedDownstreams(it.store, app.kinds, interval=60.0, batch=2)

            assert [await service.round() for _ in range(4)] == [1, 2, 1, 0]
            kept = [record.name for record in await it.store.downstreams()]
            assert set(kept) - {"host"} == {"host:1", "mill"}

    asyncio.run(go())
