"""Queues and kinds are paused and resumed through an engine."""

import asyncio

import pytest

from holdfast import App, Engine, HeldBy, JobContext, UnknownKind, UnknownQueue

app = App("shop")
RAN: list[str] = []


@app.job()
async def send(ctx: JobContext, name: str) -> None:
    RAN.append(name)


@app.job(queue="slow")
async def pack(ctx: JobContext, name: str) -> None:
    RAN.append(name)


def use(tmp_path, scenario):
    RAN.clear()

    async def main():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            await scenario(engine)

    asyncio.run(main())


def test_work_until_idle_ends_with_the_paused_jobs_left(tmp_path):
    async def scenario(engine):
        await engine.queues.pause("slow")
        packing = await engine.enqueue(pack, "packed")
        await engine.enqueue(send, "sent")
        await engine.work(until_idle=True)
        assert RAN == ["sent"]
        job = await engine.get(packing)
        assert (job.held, job.held_by, job.attempt_count) == (True, HeldBy.QUEUE, 0)
        await engine.queues.resume("slow")
        await engine.work(until_idle=True)
        assert RAN == ["sent", "packed"]

    use(tmp_path, scenario)


def test_a_kind_is_paused_by_its_function_or_its_name(tmp_path):
    async def scenario(engine):
        assert (await engine.kinds.pause(send)).paused
        sending = await engine.enqueue(send, "sent")
        await engine.work(until_idle=True)
        assert RAN == []
        assert (await engine.get(sending)).held_by is HeldBy.KIND
        assert not (await engine.kinds.resume("shop.send")).paused
        await engine.work(until_idle=True)
        assert RAN == ["sent"]

    use(tmp_path, scenario)


def test_a_worker_that_runs_goes_on_after_the_resume_at_once(tmp_path):
    async def scenario(engine):
        await engine.queues.pause("default")
        working = asyncio.create_task(engine.work())
        sending = await engine.enqueue(send, "sent")
        await engine.queues.resume("default")
        await engine.wait(sending, timeout=60)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    use(tmp_path, scenario)


def test_the_lists_show_what_is_paused_and_what_waits(tmp_path):
    async def scenario(engine):
        await engine.enqueue(send, "a")
        await engine.enqueue(send, "b", delay=60)
        paused = await engine.queues.pause("slow")
        assert paused.paused_at is not None
        default, slow = await engine.queues.list()
        assert (default.name, default.paused, default.ready, default.scheduled) == (
            "default", False, 1, 1,
        )  # fmt: skip
        assert (slow.name, slow.paused_at, slow.ready) == ("slow", paused.paused_at, 0)
        packing, sending = await engine.kinds.list()
        assert (packing.name, packing.paused) == ("shop.pack", False)
        assert (sending.name, sending.ready, sending.processing) == ("shop.send", 1, 0)

    use(tmp_path, scenario)


def test_a_pause_outlasts_the_engine(tmp_path):
    async def pause(engine):
        await engine.kinds.pause(send)

    async def look(engine):
        await engine.enqueue(send, "sent")
        await engine.work(until_idle=True)
        assert RAN == []

    use(tmp_path, pause)
    use(tmp_path, look)


@pytest.mark.parametrize("move", ["pause", "resume"])
def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path, move):
    async def scenario(engine):
        with pytest.raises(UnknownQueue, match=r"'defualt' \(known: default, slow\)"):
            await getattr(engine.queues, move)("defualt")
        with pytest.raises(UnknownKind, match=r"shop.sned"):
            await getattr(engine.kinds, move)("shop.sned")
        with pytest.raises(TypeError, match="a queue is named by a string, got"):
            await getattr(engine.queues, move)(send)
        with pytest.raises(TypeError, match="a kind is a declared job or its name, got"):
            await getattr(engine.kinds, move)(7)
        assert await engine.store.pauses() == ()

    use(tmp_path, scenario)


def test_a_queue_that_only_stored_jobs_use_can_be_paused(tmp_path):
    async def fill(engine):
        await engine.enqueue(pack, "packed")

    async def other_program():
        async with Engine(f"sqlite:///{tmp_path}/work.db") as engine:
            assert (await engine.queues.pause("slow")).ready == 1
            assert (await engine.kinds.pause("shop.pack")).paused

    use(tmp_path, fill)
    asyncio.run(other_program())


def test_the_kinds_are_also_a_mapping(tmp_path):
    async def scenario(engine):
        assert list(engine.kinds) == ["shop.send", "shop.pack"]
        assert engine.kinds["shop.pack"].queue == "slow"
        assert len(engine.kinds) == 2
        assert "shop.sned" not in engine.kinds

    use(tmp_path, scenario)
