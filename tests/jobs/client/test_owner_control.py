"""Limits of owners by the engine: changed, shown, and enforced when work arrives and is claimed."""

import asyncio

import pytest

from holdfast import (
    App,
    Engine,
    JobContext,
    JobRequest,
    LimitedOwner,
    OwnerLimits,
    OwnerUse,
    RateLimit,
    StorageExceeded,
    StoreUnavailable,
    TooManyJobs,
    WorkerOptions,
)
from holdfast.errors import ERRORS
from holdfast.testing import VirtualClock


class Shop:
    """An app that says how much it keeps, and how many of its jobs ran at once."""

    def __init__(self):
        self.kept = {"ann": [70]}
        self.counted = 0
        self.running = self.most = 0
        self.app = App("shop", stored_bytes=self.stored_bytes)

        @self.app.job()
        async def sell(_ctx: JobContext) -> None:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1

        self.sell = sell

    async def stored_bytes(self, _engine, owner):
        for part in self.kept.get(owner, []):
            self.counted += 1
            yield part


def test_own_limits_replace_the_default_until_they_are_cleared(url):
    shop, default = Shop(), OwnerLimits(waiting=50)
    own = OwnerLimits(concurrency=2, rate=RateLimit(per_minute=10))

    async def main():
        async with Engine(url, apps=[shop.app], owner_limits=default) as engine:
            await engine.enqueue(shop.sell, owner="ann")
            assert await engine.owners.limits("ann") == default
            await engine.owners.set_limits("ann", own)
            assert await engine.owners.limits("ann") == own
            assert await engine.owners.list() == (LimitedOwner("ann", own),)
            use = await engine.owners.use("ann")
            assert use == OwnerUse("ann", own, True, 0, 1, {"shop": 70})
            assert use.stored_bytes == 70
            assert await engine.owners.clear_limits("ann")
            assert not await engine.owners.clear_limits("ann")
            assert await engine.owners.use("ben") == OwnerUse(
                "ben", default, False, 0, 0, {"shop": 0}
            )

    asyncio.run(main())


@pytest.mark.parametrize("owner", ["", None, 7])
def test_an_owner_must_have_a_name(sqlite_url, owner):
    async def main():
        async with Engine(sqlite_url) as engine:
            for call in (engine.owners.limits, engine.owners.use, engine.owners.clear_limits):
                with pytest.raises((TypeError, ValueError), match="owner"):
                    await call(owner)
            with pytest.raises((TypeError, ValueError), match="owner"):
                await engine.owners.set_limits(owner, OwnerLimits())

    asyncio.run(main())


def test_limits_must_be_owner_limits(sqlite_url):
    async def main():
        async with Engine(sqlite_url) as engine:
            with pytest.raises(TypeError, match="limits must be a OwnerLimits"):
                await engine.owners.set_limits("ann", {"concurrency": 1})

    asyncio.run(main())
    with pytest.raises(TypeError, match="owner_limits must be a OwnerLimits"):
        Engine(sqlite_url, owner_limits=5)
    with pytest.raises(TypeError, match="owner_limits must be a OwnerLimits"):
        WorkerOptions(owner_limits=5)


def test_more_unfinished_jobs_than_the_limit_are_refused_all_or_none(url):
    shop = Shop()

    async def main():
        async with Engine(url, apps=[shop.app]) as engine:
            await engine.owners.set_limits("ann", OwnerLimits(waiting=2))
            await engine.enqueue(shop.sell, owner="ann")
            many = [JobRequest(shop.sell, None, owner=name) for name in ("ann", "ann", "ben")]
            with pytest.raises(TooManyJobs, match=r"'ann' may have 2 unfinished") as refused:
                await engine.enqueue_many(many)
            assert (refused.value.owner, refused.value.limit) == ("ann", 2)
            assert ERRORS[refused.value.code].http_status == 429
            assert len((await engine.list()).jobs) == 1
            await engine.enqueue_many(many[1:])
            await engine.enqueue(shop.sell)
            await engine.work(until_idle=True)
            await engine.enqueue_many(many)

    asyncio.run(main())


def test_callers_at_the_same_moment_do_not_exceed_the_limit_together(url):
    shop = Shop()

    async def main():
        limits = OwnerLimits(waiting=5)
        async with (
            Engine(url, apps=[shop.app], owner_limits=limits) as first,
            Engine(url, apps=[shop.app], owner_limits=limits) as second,
        ):
            every = [engine.enqueue(shop.sell, owner="ann") for engine in [first, second] * 8]
            found = await asyncio.gather(*every, return_exceptions=True)
            assert sum(isinstance(each, TooManyJobs) for each in found) == 11
            assert len((await first.list()).jobs) == 5

    asyncio.run(main())


def test_bulks_at_the_same_moment_do_not_exceed_a_distant_limit_together(url):
    shop = Shop()

    async def main():
        limits = OwnerLimits(waiting=2000)
        async with Engine(url, apps=[shop.app], owner_limits=limits) as engine:
            bulk = [JobRequest(shop.sell, None, owner="ann")] * 900
            every = [engine.enqueue_many(bulk) for _ in range(5)]
            found = await asyncio.gather(*every, return_exceptions=True)
            assert sum(isinstance(each, TooManyJobs) for each in found) == 3
            assert (await engine.owners.use("ann")).unfinished == 1800

    asyncio.run(main())


def test_of_one_call_only_the_jobs_within_the_limits_are_counted(url):
    shop = Shop()

    async def main():
        async with Engine(url, apps=[shop.app], owner_limits=OwnerLimits(waiting=2)) as engine:
            beyond = [JobRequest(shop.sell, None, owner="ann", beyond_limits=True)] * 3
            await engine.enqueue_many([*beyond, *[JobRequest(shop.sell, None, owner="ann")] * 2])
            assert len((await engine.list()).jobs) == 5
            with pytest.raises(TooManyJobs):
                await engine.enqueue(shop.sell, owner="ann")

    asyncio.run(main())


def test_a_repeat_at_the_limit_is_answered_with_the_job_that_is_there(url):
    shop = Shop()

    def sale(**fields):
        return JobRequest(shop.sell, None, owner="ann", **fields)

    async def main():
        async with Engine(url, apps=[shop.app]) as engine:
            await engine.owners.set_limits("ann", OwnerLimits(waiting=2))
            by_key = await engine.enqueue(shop.sell, owner="ann", dedup_key="k")
            by_id = await engine.enqueue(shop.sell, owner="ann", id="j")
            again = await engine.enqueue(shop.sell, owner="ann", dedup_key="k")
            assert (again.id, again.created) == (by_key.id, False)
            again = await engine.enqueue(shop.sell, owner="ann", id="j")
            assert (again.id, again.created) == (by_id.id, False)
            with pytest.raises(TooManyJobs):
                await engine.enqueue_many([sale(dedup_key="k"), sale(dedup_key="new")])
            with pytest.raises(TooManyJobs):
                await engine.enqueue(shop.sell, owner="ann", dedup_key="new")
            assert len((await engine.list()).jobs) == 2
            # One more fits, and repeats of it too.
            await engine.owners.set_limits("ann", OwnerLimits(waiting=3))
            many = [sale(dedup_key="k"), sale(dedup_key="new"), sale(dedup_key="new")]
            created = [handle.created for handle in await engine.enqueue_many(many)]
            assert created == [False, True, False]

    asyncio.run(main())


def test_new_jobs_are_counted_where_others_with_their_keys_repeat_a_stored_one(url):
    shop = Shop()

    def sale(job_id, dedup_key):
        return JobRequest(shop.sell, None, owner="ann", id=job_id, dedup_key=dedup_key)

    async def main():
        async with Engine(url, apps=[shop.app]) as engine:
            await engine.owners.set_limits("ann", OwnerLimits(waiting=2))
            await engine.enqueue(shop.sell, owner="ann", id="j")
            pairs = [[sale("j", f"k{n}"), sale(f"n{n}", f"k{n}")] for n in range(2)]
            with pytest.raises(TooManyJobs):
                await engine.enqueue_many(pairs[0] + pairs[1])
            created = [handle.created for handle in await engine.enqueue_many(pairs[0])]
            assert created == [False, True]
            assert len((await engine.list()).jobs) == 2

    asyncio.run(main())


def test_unfinished_jobs_are_counted_up_to_a_bound(url, monkeypatch):
    monkeypatch.setattr("holdfast.jobs.client.owner_control.MOST_COUNTED", 3)
    shop = Shop()

    async def main():
        async with Engine(url, apps=[shop.app]) as engine:
            many = [JobRequest(shop.sell, None, owner="ann") for _ in range(5)]
            await engine.enqueue_many(many[:2])
            use = await engine.owners.use("ann")
            assert (use.unfinished, use.more_unfinished) == (2, False)
            await engine.enqueue_many(many)
            use = await engine.owners.use("ann")
            assert (use.unfinished, use.more_unfinished) == (3, True)

    asyncio.run(main())


def test_what_exceeds_the_storage_is_refused(sqlite_url):
    shop = Shop()

    async def main():
        limits = OwnerLimits(storage_bytes=100)
        async with Engine(sqlite_url, apps=[shop.app], owner_limits=limits) as engine:
            await engine.owners.check_storage("ann", 30)
            with pytest.raises(StorageExceeded) as refused:
                await engine.owners.check_storage("ann", 31)
            assert (refused.value.limit, refused.value.used) == (100, 70)
            assert ERRORS[refused.value.code].http_status == 507
            await engine.owners.check_storage(None, 10**9)
            await engine.owners.set_limits("ann", OwnerLimits())
            await engine.owners.check_storage("ann", 10**9)

    asyncio.run(main())


def test_blocks_of_one_owner_take_turns_so_that_checks_see_what_was_kept(sqlite_url):
    shop = Shop()

    async def keep(engine, owner):
        async with engine.owners.turn(owner):
            await engine.owners.check_storage(owner, 30)
            await asyncio.sleep(0)
            shop.kept.setdefault(owner, []).append(30)

    async def main():
        async with Engine(sqlite_url, apps=[shop.app]) as engine:
            for owner in ("ann", "bob"):
                await engine.owners.set_limits(owner, OwnerLimits(storage_bytes=130))
            async with engine.owners.turn("bob"):  # delays no other owner
                every = [keep(engine, owner) for owner in ["ann"] * 4 + ["cleo"] * 2]
                found = await asyncio.gather(*every, return_exceptions=True)
            assert sum(isinstance(each, StorageExceeded) for each in found) == 2
            assert shop.kept == {"ann": [70, 30, 30], "cleo": [30, 30]}

    asyncio.run(main())


def test_the_wait_for_a_turn_ends(sqlite_url, monkeypatch):
    monkeypatch.setattr("holdfast.jobs.client.owner_control._TURN_WAIT", 0.05)

    async def main():
        limits = OwnerLimits(waiting=5)
        async with Engine(sqlite_url, owner_limits=limits) as engine, asyncio.timeout(8):
            async with engine.owners.turn("ann"):
                with pytest.raises(StoreUnavailable, match="'ann'"):
                    async with engine.owners.turn("ann"):
                        raise AssertionError("two blocks at once")
            async with engine.owners.turn("ann"):
                pass

    asyncio.run(main())


def test_owners_without_limits_at_the_intake_do_not_take_turns(sqlite_url):
    async def main():
        async with Engine(sqlite_url, owner_limits=OwnerLimits(concurrency=1)) as engine:
            for owner in (None, "ann"):
                async with engine.owners.turn(owner), engine.owners.turn(owner):
                    pass

    asyncio.run(main())


def test_storage_is_counted_until_the_limit_is_passed(sqlite_url):
    shop = Shop()
    shop.kept["ann"] = [40] * 50

    async def main():
        limits = OwnerLimits(storage_bytes=100)
        async with Engine(sqlite_url, apps=[shop.app], owner_limits=limits) as engine:
            with pytest.raises(StorageExceeded, match="stored at least 120") as refused:
                await engine.owners.check_storage("ann", 1)
            assert (refused.value.used, shop.counted) == (120, 3)

    asyncio.run(main())


@pytest.mark.parametrize("parts, complete", [(20, True), (21, False), (500, False)])
def test_what_an_owner_stores_is_shown_up_to_a_bound(sqlite_url, parts, complete):
    shop = Shop()
    shop.kept["ann"] = [1] * parts

    async def main():
        async with Engine(sqlite_url, apps=[shop.app]) as engine:
            use = await engine.owners.use("ann")
            assert (use.stored_bytes, use.stored_complete) == (20, complete)
            assert shop.counted <= 21

    asyncio.run(main())


def test_limits_set_by_another_process_hold_within_a_second(sqlite_url):
    shop, clock = Shop(), VirtualClock()

    async def main():
        async with Engine(sqlite_url, apps=[shop.app], clock=clock) as engine:
            await engine.enqueue(shop.sell, owner="ann")
            async with Engine(sqlite_url) as other:
                await other.owners.set_limits("ann", OwnerLimits(waiting=1))
            clock.advance(1.1)
            with pytest.raises(TooManyJobs):
                await engine.enqueue(shop.sell, owner="ann")

    asyncio.run(main())


def test_a_worker_of_the_engine_keeps_to_the_default(url):
    shop = Shop()

    async def main():
        limits = OwnerLimits(concurrency=1)
        async with Engine(url, apps=[shop.app], owner_limits=limits) as engine:
            for _ in range(5):
                await engine.enqueue(shop.sell, owner="ann")
            await engine.work(until_idle=True)
            assert (await engine.owners.use("ann")).unfinished == 0

    asyncio.run(main())
    assert shop.most == 1


def test_erasing_an_owner_deletes_its_limits(sqlite_url):
    async def main():
        async with Engine(sqlite_url) as engine:
            await engine.owners.set_limits("ann", OwnerLimits(waiting=1))
            await engine.erase("ann")
            assert await engine.owners.list() == ()

    asyncio.run(main())


def test_scripts_change_limits_too(sqlite_url):
    limits = OwnerLimits(concurrency=3)
    with Engine(sqlite_url, apps=[Shop().app]).blocking() as engine:
        engine.owners.set_limits("ann", limits)
        assert engine.owners.limits("ann") == limits
        assert engine.owners.use("ann").stored_bytes == 70
        assert [each.owner for each in engine.owners.list()] == ["ann"]
        engine.owners.check_storage("ann", 10**6)
        assert engine.owners.clear_limits("ann")


async def returns_bytes(_engine, _owner):
    return 0


async def yields_without_an_owner(_engine):
    yield 0


@pytest.mark.parametrize(
    "function", [len, lambda engine, owner: 0, "bytes", returns_bytes, yields_without_an_owner]
)
def test_stored_bytes_must_be_an_async_generator_of_engine_and_owner(function):
    with pytest.raises(TypeError, match="stored_bytes"):
        App("shop", stored_bytes=function)


def test_work_that_was_taken_in_before_may_be_enqueued_beyond_the_limit(sqlite_url):
    shop = Shop()

    async def main():
        limits = OwnerLimits(waiting=1)
        async with Engine(sqlite_url, apps=[shop.app], owner_limits=limits) as engine:
            await engine.enqueue(shop.sell, owner="ann")
            await engine.enqueue(shop.sell, owner="ann", beyond_limits=True)
            assert (await engine.owners.use("ann")).unfinished == 2

    asyncio.run(main())
