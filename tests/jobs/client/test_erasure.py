"""Erasing an owner: jobs of any status, webhooks, and what apps keep; nothing of others."""

import asyncio

import pytest

from holdfast import (
    App,
    Engine,
    Erased,
    JobContext,
    JobFilter,
    JobsStillRun,
    Permanent,
    Retention,
    UndeclaredKinds,
)
from holdfast.jobs.client import erasure


class Shop:
    """An app that keeps orders beside its jobs, and a file for each job."""

    def __init__(self):
        self.orders = {"ann": 2, "ben": 1}
        self.files = []
        self.started, self.go_on = asyncio.Event(), asyncio.Event()
        self.app = App("shop", on_erase=self.forget)

        @self.app.job(retention=Retention(on_deleted=lambda job: self.files.append(job.id)))
        async def sell(_ctx: JobContext, item: str) -> str:
            if item == "nothing":
                raise Permanent("SOLD_OUT", "There is none left.")
            return item

        @self.app.job()
        async def wait(_ctx: JobContext) -> None:
            self.started.set()
            await asyncio.Event().wait()

        @self.app.job()
        async def stubborn(_ctx: JobContext) -> None:
            self.started.set()
            while not self.go_on.is_set():
                try:
                    await self.go_on.wait()
                except asyncio.CancelledError:
                    continue

        self.sell, self.wait, self.stubborn = sell, wait, stubborn

    async def forget(self, _engine, owner):
        return {"orders": self.orders.pop(owner, 0)}


async def owners(engine):
    return sorted(str(job.owner) for job in (await engine.list()).jobs)


def test_everything_of_an_owner_is_deleted_and_nothing_of_others(url):
    shop = Shop()

    async def main():
        async with Engine(url, apps=[shop.app]) as engine:
            await engine.enqueue(shop.sell, "tea", owner="ann")
            await engine.enqueue(shop.sell, "nothing", owner="ann")
            await engine.enqueue(shop.sell, "salt", owner="ben")
            await engine.work(until_idle=True)
            await engine.enqueue(shop.sell, "later", owner="ann", delay=3600)
            await engine.webhooks.add("https://example.org/a", owner="ann")
            kept = await engine.webhooks.add("https://example.org/b", owner="ben")

            erased = await engine.erase("ann")

            assert erased == Erased("ann", jobs=3, webhooks=1, data={"shop.orders": 2})
            assert await owners(engine) == ["ben"]
            assert await engine.webhooks.list() == (kept,)
            assert shop.orders == {"ben": 1}
            assert len(shop.files) == 3
            again = await engine.erase("ann")
            assert again == Erased("ann", data={"shop.orders": 0})

    asyncio.run(main())


def test_a_running_job_is_cancelled_and_waited_for(url):
    shop = Shop()

    async def main():
        async with Engine(url, apps=[shop.app]) as engine:
            working = asyncio.create_task(engine.work())
            await engine.enqueue(shop.wait, owner="ann")
            await shop.started.wait()
            erased = await engine.erase("ann")
            assert erased.jobs == 1
            assert await owners(engine) == []
            working.cancel()
            await asyncio.wait([working])

    asyncio.run(main())


def test_a_job_that_does_not_stop_is_named_and_erased_by_a_later_call(sqlite_url):
    shop = Shop()

    async def main():
        async with Engine(sqlite_url, apps=[shop.app]) as engine:
            working = asyncio.create_task(engine.work())
            job = await engine.enqueue(shop.stubborn, owner="ann")
            await shop.started.wait()
            with pytest.raises(JobsStillRun) as caught:
                await engine.erase("ann", timeout=0.2)
            assert caught.value.job_ids == (job.id,)
            shop.go_on.set()
            assert (await engine.erase("ann")).jobs == 1
            working.cancel()
            await asyncio.wait([working])

    asyncio.run(main())


def test_the_deliveries_of_a_webhook_go_with_it(sqlite_url):
    from holdfast.webhooks import webhooks_app

    class Nowhere:
        async def post(self, url, body, headers=None, *, read_body=True):
            raise AssertionError

    async def main():
        async with Engine(sqlite_url, apps=[webhooks_app(Nowhere())]) as engine:
            webhook = await engine.webhooks.add("https://example.org/a", owner="ann")
            await engine.webhooks.test(webhook.id)
            erased = await engine.erase("ann")
            assert (erased.jobs, erased.webhooks) == (0, 1)
            assert await engine.webhooks.deliveries(webhook.id) == ()

    asyncio.run(main())


def test_more_than_a_page_of_jobs_is_purged(sqlite_url, monkeypatch):
    monkeypatch.setattr(erasure, "_BATCH", 2)
    shop = Shop()

    with Engine(sqlite_url, apps=[shop.app]).blocking() as engine:
        for number in range(5):
            engine.enqueue(shop.sell, str(number), owner="ann")
        assert engine.erase("ann").jobs == 5
        assert engine.list(JobFilter(owner="ann")).jobs == ()
        assert engine.purge("no-such-job") == ()
        with pytest.raises(ValueError, match="owner"):
            engine.erase("")


def test_jobs_are_not_listed_before_the_first_of_them_are_deleted(sqlite_url, monkeypatch):
    monkeypatch.setattr(erasure, "_BATCH", 2)
    shop, calls = Shop(), []

    def noted(name, call):
        def noting(*args, **options):
            calls.append(name)
            return call(*args, **options)

        return noting

    async def main():
        async with Engine(sqlite_url, apps=[shop.app]) as engine:
            for number in range(5):
                await engine.enqueue(shop.sell, str(number), owner="ann")
            for name in ("list", "delete"):
                monkeypatch.setattr(engine, name, noted(name, getattr(engine, name)))
            assert (await engine.erase("ann")).jobs == 5

    asyncio.run(main())
    assert calls[:2] == ["list", "delete"]


def test_a_hook_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="on_erase must be"):
        App("a", on_erase=lambda engine, owner: {})

    async def short(owner):
        return {}

    with pytest.raises(TypeError, match="on_erase must take"):
        App("a", on_erase=short)


def test_an_owner_with_jobs_that_no_app_declares_is_refused(url):
    shop = Shop()

    async def main():
        async with Engine(url, apps=[shop.app]) as engine:
            await engine.enqueue(shop.sell, "tea", owner="ann")
            await engine.work(until_idle=True)
        async with Engine(url) as engine:
            assert (await engine.erase("ben")).jobs == 0
            with pytest.raises(UndeclaredKinds) as caught:
                await engine.erase("ann")
            assert caught.value.kinds == ("shop.sell",)
            assert await owners(engine) == ["ann"]

    asyncio.run(main())
