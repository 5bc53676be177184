"""An engine is opened once its store answers; tests/cli/test_serve.py does it with PostgreSQL."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.support.waiting import SOON

from holdfast.cli.startup import opened
from holdfast.jobs.store_port import StoreUnavailable, StoreUnusable


class Opening:
    """An engine whose `outcomes` come one by one: an exception, an event to wait for, or None."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.log = []
        self.begun = asyncio.Event()

    async def __aenter__(self):
        self.begun.set()
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        try:
            if outcome is not None:
                await outcome.wait()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("opened")

    async def __aexit__(self, *_):
        self.log.append("closed")


def test_a_store_that_does_not_answer_is_tried_again_and_both_are_logged_once(caplog):
    async def go():
        engine = Opening(StoreUnavailable("it is down"), StoreUnavailable("it is down"), None)
        async with asyncio.timeout(SOON), AsyncExitStack() as stack:
            assert await opened(engine, stack, "one", asyncio.Event())
            assert engine.log == ["opened"]
        assert engine.log == ["opened", "closed"]

    asyncio.run(go())
    first, last = (record.message for record in caplog.records)
    assert first == "one: the store does not answer, waiting for it: it is down"
    assert last.startswith("one: the store answers again after ")


def test_a_stop_ends_an_attempt_that_hangs():
    async def go():
        engine, stopped = Opening(asyncio.Event()), asyncio.Event()
        async with asyncio.timeout(SOON), AsyncExitStack() as stack:
            waiting = asyncio.create_task(opened(engine, stack, "one", stopped))
            await engine.begun.wait()
            stopped.set()
            assert not await waiting
        assert engine.log == ["cancelled"]

    asyncio.run(go())


def test_a_cancelled_caller_leaves_no_attempt_behind():
    async def go():
        engine = Opening(asyncio.Event())
        async with asyncio.timeout(SOON), AsyncExitStack() as stack:
            waiting = asyncio.create_task(opened(engine, stack, "one", asyncio.Event()))
            await engine.begun.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert engine.log == ["cancelled"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(go())


def test_a_store_that_cannot_be_used_is_not_waited_for():
    async def go():
        engine = Opening(StoreUnusable("a wrong password"))
        async with AsyncExitStack() as stack:
            with pytest.raises(StoreUnusable, match="a wrong password"):
                await opened(engine, stack, "one", asyncio.Event())

    asyncio.run(go())


def test_one_that_was_stopped_before_opens_nothing():
    async def go():
        engine, stopped = Opening(), asyncio.Event()
        stopped.set()
        async with AsyncExitStack() as stack:
            assert not await opened(engine, stack, "one", stopped)
        assert engine.log == []

    asyncio.run(go())
