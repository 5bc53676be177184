"""Progress: the first update at once, further ones at a limited rate, and events."""

import asyncio

from tests.support.workers import claim

from holdfast.jobs.declare.app import App
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.jobs.worker.progress import ProgressWriter
from holdfast.jobs.worker.run import Run
from holdfast.testing import VirtualClock


class Kept:
    def __init__(self):
        self.written = []
        self.answer = True

    async def progress(self, lease, share, note, *, record=False):
        if isinstance(self.answer, Exception):
            raise self.answer
        self.written.append((share, note, record))
        return self.answer


def setting(clock):
    app = App("a")

    @app.job()
    async def work(ctx): ...

    store, runs, refused = Kept(), {}, []
    writer = ProgressWriter(
        store, clock=clock, every=0.5, find=runs.get, on_refused=refused.append
    )  # fmt: skip
    run = Run(claim(), work.kind, writer, clock, 10.0)
    runs[run.context] = run
    return writer, run, store, runs, refused


async def breathe(seconds=0.001):
    await asyncio.sleep(seconds)


def test_the_first_update_is_written_at_once_and_the_last_of_many_later():
    clock = VirtualClock()
    writer, run, store, _, _ = setting(clock)

    async def go():
        writer.open()
        run.context.progress(0.1, "reading")
        await breathe()
        assert store.written == [(0.1, "reading", True)]
        for share in (0.2, 0.3, 0.4):
            run.context.progress(share)
            await breathe()
        assert len(store.written) == 1
        await breathe(0.6)
        assert store.written[1:] == [(0.4, "reading", True)]
        run.context.progress(0.45)
        await breathe(0.6)
        assert store.written[2:] == [(0.45, "reading", False)]
        await writer.close()

    clock.run(go())


def test_a_refused_update_means_that_the_lease_is_lost():
    clock = VirtualClock()
    writer, run, store, _, refused = setting(clock)
    store.answer = False

    async def go():
        writer.open()
        run.context.progress(0.1)
        await breathe()
        assert refused == [run]
        await writer.close()

    clock.run(go())


def test_an_unavailable_store_does_not_matter():
    clock = VirtualClock()
    writer, run, store, _, refused = setting(clock)
    store.answer = StoreUnavailable("gone")

    async def go():
        writer.open()
        run.context.progress(0.1)
        await breathe()
        store.answer = True
        run.context.progress(0.2)
        await breathe(0.6)
        assert store.written == [(0.2, None, True)]
        assert refused == []
        await writer.close()

    clock.run(go())


def test_nothing_is_written_about_an_attempt_that_ended():
    clock = VirtualClock()
    writer, run, store, runs, _ = setting(clock)

    async def go():
        run.context.progress(0.1)
        writer.open()
        writer.progress_noted(run.context)
        runs.clear()
        await breathe()
        assert store.written == []
        writer.forget(run.context)
        await writer.close()
        writer.progress_noted(run.context)

    clock.run(go())


def test_a_write_under_way_when_the_attempt_ends_leaves_nothing_behind():
    clock = VirtualClock()
    writer, run, store, runs, refused = setting(clock)

    async def go():
        writer.open()
        run.context.progress(0.1)
        real = store.progress

        async def ending(*args, **kwargs):
            runs.clear()
            return await real(*args, **kwargs)

        store.progress = ending
        store.answer = False
        await breathe()
        assert refused == []
        # Nothing is remembered: another update is written at once, as the first one of an attempt.
        store.progress = real
        runs[run.context] = run
        run.context.progress(0.15)
        await breathe()
        assert store.written == [(0.1, None, True), (0.15, None, True)]
        await writer.close()

    clock.run(go())


def test_progress_after_the_loop_closed_is_dropped():
    clock = VirtualClock()
    writer, run, store, _, _ = setting(clock)

    async def go():
        writer.open()

    clock.run(go())
    run.context.progress(0.5)
    assert store.written == []


def test_closing_ends_what_waits():
    clock = VirtualClock()
    writer, run, store, _, _ = setting(clock)

    async def go():
        writer.open()
        run.context.progress(0.1)
        await breathe()
        run.context.progress(0.2)
        await breathe()
        await writer.close()
        assert len(store.written) == 1

    clock.run(go())


def test_an_update_that_the_store_cannot_take_is_only_logged(caplog):
    clock = VirtualClock()
    writer, run, store, _, refused = setting(clock)

    async def go():
        writer.open()
        store.answer = ValueError("cannot")
        run.context.progress(0.1)
        await breathe()
        assert "cannot be stored" in caplog.text
        assert refused == []
        await writer.close()

    clock.run(go())
