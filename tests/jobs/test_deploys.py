"""Jobs of an earlier release: renamed kinds, changed arguments, kinds that are gone."""

import asyncio
import logging
from dataclasses import dataclass

import pydantic
import pytest

from holdfast import (
    App,
    Engine,
    JobContext,
    JobFilter,
    JobStatus,
    Retention,
    RetryPolicy,
    WorkerOptions,
)
from holdfast.jobs.maintenance.retention import RetentionService
from holdfast.jobs.worker.isolation.child_options import ChildOptions

ONE = RetryPolicy(max_attempts=1, retry_on=(ConnectionError,))
"""A policy under which any counted failure is a dead letter."""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/work.db"


async def enqueue(url, app, *requests, **options):
    async with Engine(url, apps=[app]) as engine:
        return [await engine.enqueue(job, args, **options) for job, args in requests]


async def work(url, app, **options):
    async with Engine(url, apps=[app]) as engine:
        await engine.work(until_idle=True, **options)


async def job_of(url, handle):
    async with Engine(url) as engine:
        return await engine.get(handle), await engine.attempts(handle)


def old_app(*, name="send", **options):
    """Return the app of the release before, with a job that takes any arguments."""
    app = App("shop")

    @app.job(name, **options)
    async def anything(ctx: JobContext, args: dict[str, int]) -> None: ...

    return app


def new_app(args, *, name="send", **options):
    """Return the app of this release; its job returns its arguments."""
    app = App("shop")

    async def job(ctx, given):
        return repr(given)

    job.__annotations__ = {"given": args, "return": str}
    app.job(name, retry=ONE, **options)(job)
    return app


@dataclass
class Order:
    number: int
    total: int


@dataclass
class Defaulted:
    number: int
    total: int = 0


class Model(pydantic.BaseModel):
    number: int
    total: int = 0


def run_later(url, stored, app):
    """Store arguments with the release before, run them with `app`; return job and attempts."""

    async def scenario():
        (handle,) = await enqueue(url, old_app(), ("shop.send", stored))
        await work(url, app)
        return await job_of(url, handle)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "stored, args, read",
    [
        ({"number": 7}, Defaulted, "Defaulted(number=7, total=0)"),
        ({"number": 7}, Model, "Model(number=7, total=0)"),
        ({"number": 7, "gone": 1}, Defaulted, "Defaulted(number=7, total=0)"),
    ],
    ids=["added", "added to a model", "removed"],
)
def test_a_field_that_was_added_with_a_default_or_removed_needs_nothing(url, stored, args, read):
    job, _ = run_later(url, stored, new_app(args))
    assert job.status is JobStatus.COMPLETE
    assert read in job.result


def renamed(stored):
    return {"number": stored["number"], "total": stored["amount"]}


@pytest.mark.parametrize("args", [Order, Defaulted, Model])
def test_a_renamed_field_is_converted_with_or_without_a_default(url, args):
    job, _ = run_later(url, {"number": 7, "amount": 3}, new_app(args, convert=renamed))
    assert job.status is JobStatus.COMPLETE
    assert f"{args.__name__}(number=7, total=3)" in job.result


def test_convert_may_return_the_arguments_themselves(url):
    app = new_app(Order, convert=lambda stored: Order(stored["number"], 5))
    job, _ = run_later(url, {"number": 7}, app)
    assert "Order(number=7, total=5)" in job.result


def test_convert_is_not_called_for_arguments_that_fit(url):
    def refuse(stored):
        raise AssertionError(stored)

    job, _ = run_later(url, {"number": 7, "total": 1}, new_app(Order, convert=refuse))
    assert job.status is JobStatus.COMPLETE


def broken(stored):
    raise KeyError("amount")


@pytest.mark.parametrize(
    "convert, words",
    [
        (None, "Object missing required field `total`"),
        (broken, "convert raised KeyError: 'amount'"),
        (
            lambda stored: {"number": "x", "total": 1},
            "after convert: arguments of shop.send: number",
        ),
    ],
    ids=["none", "broken", "wrong"],
)
def test_a_job_whose_arguments_cannot_be_read_waits_and_says_why(url, caplog, convert, words):
    job, attempts = run_later(url, {"number": 7}, new_app(Order, convert=convert))
    assert (job.status, job.attempt_count, job.error) == (JobStatus.QUEUED, 0, None)
    assert job.ready_at > job.created_at + 5
    (attempt,) = attempts
    assert attempt.error.code == "ARGUMENTS_MISMATCH"
    assert words in attempt.error.message
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.getMessage().startswith(f"shop.send: job {job.id} and those like it wait")
    assert words in line.getMessage()


def test_the_reason_is_logged_once_and_not_for_each_job(url, caplog):
    async def scenario():
        requests = [("shop.send", {"number": number}) for number in range(20)]
        await enqueue(url, old_app(), *requests)
        await work(url, new_app(Order))
        async with Engine(url) as engine:
            page = await engine.list(JobFilter(statuses=(JobStatus.QUEUED,)))
            assert len(page.jobs) == 20

    asyncio.run(scenario())
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_a_waiting_job_runs_once_a_worker_can_read_it(url):
    async def scenario():
        (handle,) = await enqueue(url, old_app(), ("shop.send", {"number": 7, "amount": 3}))
        for _ in range(3):
            await work(url, new_app(Order))
            async with Engine(url) as engine:
                waiting = await engine.retry_now(handle)  # in place of waiting
                assert waiting.attempt_count == 0
        await work(url, new_app(Order, convert=renamed))
        return await job_of(url, handle)

    job, attempts = asyncio.run(scenario())
    assert (job.status, job.attempt_count) == (JobStatus.COMPLETE, 1)
    delays = [attempt.retry_after for attempt in attempts[:-1]]
    assert len(delays) == 3
    assert all(8 * 2**n <= delay <= 12 * 2**n for n, delay in enumerate(delays))


apart = App("shop")


@apart.job("send", retry=ONE, isolation="process")
def send_apart(ctx: JobContext, order: Order) -> str:
    return repr(order)


renaming = App("shop")


@renaming.job("key", aliases=("post",))
async def return_key(ctx: JobContext, args: dict[str, int]) -> str:
    return ctx.idempotency_key


@renaming.job("key_apart", aliases=("mail",), isolation="process")
def return_key_apart(ctx: JobContext, args: dict[str, int]) -> str:
    return ctx.idempotency_key


def test_a_job_in_a_child_process_waits_as_well(url):
    async def scenario():
        (handle,) = await enqueue(url, old_app(), ("shop.send", {"number": 7}))
        await work(url, apart, options=WorkerOptions(child=ChildOptions(idle_seconds=0.1)))
        return await job_of(url, handle)

    job, (attempt,) = asyncio.run(scenario())
    assert (job.status, job.attempt_count) == (JobStatus.QUEUED, 0)
    assert attempt.error.code == "ARGUMENTS_MISMATCH"


def test_a_renamed_kind_runs_the_jobs_of_its_old_names(url):
    async def scenario():
        handles = [
            *await enqueue(url, old_app(name="post"), ("shop.post", {"number": 1})),
            *await enqueue(url, old_app(name="mail"), ("shop.mail", {"number": 2})),
        ]
        app = new_app(Defaulted, aliases=("post", "shop.mail"))
        async with Engine(url, apps=[app]) as engine:
            handles.append(await engine.enqueue("shop.post", {"number": 3}))
            await engine.work(until_idle=True)
            assert [handle.kind for handle in handles] == ["shop.post", "shop.mail", "shop.send"]
            return [await engine.result(handle) for handle in handles]

    read = [f"Defaulted(number={number}, total=0)" for number in (1, 2, 3)]
    assert asyncio.run(scenario()) == read


@pytest.mark.parametrize("name", ["post", "mail"], ids=["in the worker", "in a child"])
def test_a_rename_leaves_the_idempotency_key_of_a_job_as_it_was(url, name):
    async def scenario():
        (handle,) = await enqueue(url, old_app(name=name), (f"shop.{name}", {"number": 1}))
        async with Engine(url, apps=[renaming]) as engine:
            await engine.work(until_idle=True)
            return handle, await engine.result(handle)

    handle, key = asyncio.run(scenario())
    assert key == f"shop.{name}:{handle.id}"


def test_a_pause_and_the_retention_of_a_kind_follow_its_old_names(url):
    async def scenario():
        (handle,) = await enqueue(url, old_app(name="post"), ("shop.post", {"number": 1}))
        app = new_app(Defaulted, aliases=("post",), retention=Retention(complete_for=0))
        async with Engine(url, apps=[app]) as engine:
            await engine.kinds.pause("shop.send")
            await engine.work(until_idle=True)
            assert (await engine.get(handle)).held
            await engine.kinds.resume("shop.send")
            await engine.work(until_idle=True)
            service = RetentionService(engine.store, engine.kinds.values(), "upkeep", interval=1)
            await service.round()  # the worker may have done it already
            assert await engine.get(handle) is None

    asyncio.run(scenario())


def test_a_kind_that_no_worker_knows_just_waits(url):
    async def scenario():
        (handle,) = await enqueue(url, old_app(name="gone"), ("shop.gone", {"number": 1}))
        await work(url, new_app(Defaulted))
        job, attempts = await job_of(url, handle)
        assert (job.status, job.attempt_count, attempts) == (JobStatus.QUEUED, 0, ())
        await work(url, old_app(name="gone"))
        job, _ = await job_of(url, handle)
        assert job.status is JobStatus.COMPLETE

    asyncio.run(scenario())


def test_the_values_of_arguments_that_do_not_fit_are_not_shown(url, caplog):
    app = App("shop")

    @app.job()
    async def send(ctx: JobContext, args: dict[str, str]) -> None: ...

    async def scenario():
        (handle,) = await enqueue(url, app, (send, {"number": "4111-1111", "total": "1"}))
        await work(url, new_app(Order))
        return (await job_of(url, handle))[0].last_error

    error = asyncio.run(scenario())
    assert error.code == "ARGUMENTS_MISMATCH"
    assert "number" in error.message
    assert "4111" not in error.message + caplog.text
