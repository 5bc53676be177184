"""A job's policy holds in a worker as it does in process."""

import asyncio

import pytest
from tests.support import isolated
from tests.support.workers import rig

from holdfast.errors import Permanent, UnwantedResult
from holdfast.jobs.declare.app import App
from holdfast.resilience.backoff import Exponential, WaitFunction
from holdfast.resilience.policy import RetryPolicy

AT_ONCE = Exponential(base=0, jitter=0)


def ended(tmp_path, app, kind):
    """Run one job of `kind` to its end; return it."""

    async def go():
        async with rig(tmp_path, app) as it:
            await it.enqueue(kind, "job")
            await it.run()
            return await it.store.get("job")

    return asyncio.run(go())


@pytest.mark.parametrize("error", [RuntimeError("?"), OSError("the disk is busy")])
def test_an_unknown_error_has_all_attempts_of_the_policy(tmp_path, error):
    app = App("a")

    @app.job(retry=RetryPolicy(max_attempts=5, backoff=AT_ONCE))
    async def work(ctx):
        raise error

    job = ended(tmp_path, app, work)
    assert (job.status, job.attempt_count) == ("failed", 5)


def test_retry_once_keeps_a_code_to_one_retry(tmp_path):
    app = App("a")

    @app.job(retry=RetryPolicy(max_attempts=5, backoff=AT_ONCE), retry_once=("UNKNOWN",))
    async def work(ctx):
        raise RuntimeError("?")

    job = ended(tmp_path, app, work)
    assert (job.status, job.attempt_count) == ("failed", 2)


@pytest.mark.parametrize("error", [RuntimeError("?"), Permanent("CARD_DECLINED", "no")])
def test_a_kind_without_dead_letters_only_fails(tmp_path, caplog, error):
    app = App("a")

    @app.job(retry=RetryPolicy(max_attempts=2, backoff=AT_ONCE), dead_letters=False)
    async def work(ctx):
        raise error

    job = ended(tmp_path, app, work)
    assert (job.status, job.dead_letter) == ("failed", None)
    (record,) = [each for each in caplog.records if "failed for good" in each.message]
    assert (record.levelname, record.code) == ("WARNING", job.error.code)


def test_an_error_outside_retry_on_is_not_tried_again(tmp_path):
    app = App("a")

    @app.job(retry=RetryPolicy(max_attempts=5, backoff=AT_ONCE, retry_on=KeyError))
    async def work(ctx):
        raise ConnectionError("refused") if ctx.attempt == 2 else KeyError("k")

    job = ended(tmp_path, app, work)
    assert (job.error.code, job.attempt_count) == ("GW_UNAVAILABLE", 2)


def test_the_callers_wait_function_sets_the_delay(tmp_path):
    app = App("a")
    asked = []

    def wait(attempt):
        asked.append(attempt)
        return 0.0

    @app.job(retry=RetryPolicy(max_attempts=3, backoff=WaitFunction(wait)))
    async def work(ctx):
        raise RuntimeError("?")

    assert ended(tmp_path, app, work).attempt_count == 3
    assert asked == [1, 2]


def in_loop(app, policy):
    @app.job(retry=policy)
    async def work(ctx) -> int:
        return ctx.attempt

    return work


def threaded(app, policy):
    @app.job(retry=policy)
    def work(ctx) -> int:
        return ctx.attempt

    return work


@pytest.mark.parametrize("declared", [in_loop, threaded])
def test_a_result_that_is_not_wanted_is_tried_again(tmp_path, declared):
    app = App("a")
    policy = RetryPolicy(backoff=AT_ONCE, retry_result=lambda value: value < 3)
    job = ended(tmp_path, app, declared(app, policy))
    assert (job.status, job.attempt_count, job.result) == ("complete", 3, "3")


def test_a_result_that_is_not_wanted_is_tried_again_in_a_child_process(tmp_path):
    job = ended(tmp_path, isolated.values_app, isolated.third_time)
    assert (job.status, job.attempt_count, job.result) == ("complete", 3, "3")


def test_a_job_without_a_wanted_result_fails_with_its_code(tmp_path):
    app = App("a")
    policy = RetryPolicy(backoff=AT_ONCE, retry_result=lambda value: True)
    job = ended(tmp_path, app, in_loop(app, policy))
    assert (job.error.code, job.attempt_count) == (UnwantedResult.code, 3)


@pytest.mark.parametrize("codes", ["UNKNOWN", ["not a code"]])
def test_codes_of_retry_once_that_cannot_be_used_are_refused(codes):
    with pytest.raises((TypeError, ValueError), match="code"):
        App("a").job(retry_once=codes)
