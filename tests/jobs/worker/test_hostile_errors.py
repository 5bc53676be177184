"""Exceptions that cannot be examined fail their attempt, never the worker."""

import asyncio

import pytest
from tests.support.workers import rig

from holdfast.jobs.declare.app import App
from holdfast.resilience.policy import RetryPolicy

RAISED = [RuntimeError, SystemExit]


def silent(raised):
    class Silent(Exception):
        def __str__(self):
            raise raised("no text")

    return Silent


def nameless(raised):
    class Nameless(type):
        def __getattribute__(cls, name):
            if name in {"__name__", "__qualname__", "__module__"}:
                raise raised("no name")
            return super().__getattribute__(name)

    return Nameless("Secret", (Exception,), {})


def hasty(raised):
    class Hasty(Exception):
        @property
        def retry_after(self):
            raise raised("never")

        response = code = retry_after

    return Hasty


def unreadable(raised):
    class Unreadable(Exception):
        def __getattribute__(self, name):
            raise raised("no attributes")

    return Unreadable


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("make", [silent, nameless, hasty, unreadable])
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_an_error_that_cannot_be_examined_fails_its_attempt_alone(
    tmp_path, make, raised, isolation, caplog
):
    app, error = App("a"), make(raised)

    if isolation is None:

        @app.job(retry=RetryPolicy(max_attempts=1))
        async def hostile(ctx):
            raise error("boom")

    else:

        @app.job(retry=RetryPolicy(max_attempts=1))
        def hostile(ctx):
            raise error("boom")

    @app.job()
    async def friendly(ctx): ...

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(hostile, "hostile")
            await it.enqueue(friendly, "friendly")
            await it.run()
            assert await it.outcomes("hostile") == ["failed"]
            job = await it.store.get("hostile")
            assert (job.status, job.error.code) == ("failed", "UNKNOWN")
            assert job.error.message
            assert await it.status("friendly") == "complete"
            assert "job hostile (a.hostile) is a dead letter" in caplog.text

    asyncio.run(go())
