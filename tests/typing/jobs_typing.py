"""Types of declared jobs. Checked by mypy, never run."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, assert_type

from holdfast import BlockingEngine
from holdfast.bootstrap import Engine
from holdfast.jobs.client.requests import JobHandle, JobRequest
from holdfast.jobs.database_port import Database
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.job_handle import PendingJob
from holdfast.jobs.model import Job
from holdfast.jobs.views import Page
from holdfast.outbox.client import Outbox
from holdfast.resilience.breaker.transitions import CircuitState

app = App("typing")


@dataclass(frozen=True, slots=True)
class Order:
    number: int


@dataclass(frozen=True, slots=True)
class Receipt:
    text: str


@app.job()
async def send(ctx: JobContext, args: Order) -> Receipt:
    return Receipt(str(args.number))


@app.job(queue="slow")
def pack(ctx: JobContext, args: Order) -> int:
    return args.number


@app.job()
async def sweep(ctx: JobContext) -> None: ...


@app.job()
def count(ctx: JobContext) -> int:
    return 1


@app.periodic("*/5 * * * *", timezone="Europe/Berlin", missed="once", queue="night")
async def tidy(ctx: JobContext) -> None: ...


@app.periodic(every=30)
def measure(ctx: JobContext) -> int:
    return ctx.slot.hour


@app.periodic(every=30)  # type: ignore[arg-type]
def ordered(ctx: JobContext, args: Order) -> int:
    return args.number


async def a_periodic_job_is_a_job_without_arguments(engine: Engine, ctx: JobContext) -> None:
    await tidy(ctx)
    assert_type(measure(ctx), int)
    assert_type(await engine.enqueue(measure), JobHandle[int])
    await engine.periodic.pause(tidy)


async def a_declared_function_is_called_as_it_was_written(ctx: JobContext) -> None:
    sending: Coroutine[Any, Any, Receipt] = send(ctx, Order(1))
    assert_type(await sending, Receipt)
    assert_type(pack(ctx, Order(1)), int)
    assert_type(count(ctx), int)
    await send(ctx, 3)  # type: ignore[arg-type]
    pack(ctx)  # type: ignore[call-arg]


def takes_orders(job: JobFunction[Order, Any]) -> None: ...


def takes_nothing(job: JobFunction[None, Any]) -> None: ...


def a_declared_function_is_a_job_of_its_types() -> None:
    takes_orders(send)
    takes_orders(pack)
    takes_nothing(sweep)
    takes_nothing(count)
    takes_orders(count)  # type: ignore[arg-type]
    takes_nothing(send)  # type: ignore[arg-type]


async def enqueueing_takes_the_arguments_that_the_job_declares(engine: Engine) -> None:
    assert_type(await engine.enqueue(send, Order(1)), JobHandle[Receipt])
    assert_type(await engine.enqueue(pack, Order(1), owner="ann", priority=3), JobHandle[int])
    assert_type(await engine.enqueue(sweep), JobHandle[None])
    assert_type(await engine.enqueue(count, deadline=60), JobHandle[int])
    assert_type(await engine.enqueue("typing.send", {"number": 1}), JobHandle[Any])
    await engine.enqueue(send, 3)  # type: ignore[misc]
    await engine.enqueue(send)  # type: ignore[arg-type]
    await engine.enqueue(sweep, Order(1))  # type: ignore[misc]
    await engine.enqueue(send, Order(1), dedupkey="x")  # type: ignore[call-overload]
    await engine.enqueue(send, Order(1), priority="high")  # type: ignore[call-overload]


async def the_engine_of_a_handler_has_the_types_of_an_engine(ctx: JobContext) -> None:
    assert_type(await ctx.engine.enqueue(send, Order(1)), JobHandle[Receipt])
    assert_type(await ctx.engine.enqueue(sweep, owner=ctx.owner), JobHandle[None])
    assert_type(await ctx.engine.enqueue("typing.send", {"number": 1}), JobHandle[Any])
    assert_type(
        await ctx.engine.enqueue_many([JobRequest(sweep, None)]), tuple[JobHandle[Any], ...]
    )
    assert_type(await ctx.engine.get("an-id"), Job | None)
    assert_type(await ctx.engine.cancel(ctx.job_id), Job)
    assert_type(await ctx.engine.list(limit=3), Page)
    assert_type(await ctx.engine.result(await ctx.engine.enqueue(pack, Order(1))), int)
    assert_type(ctx.engine.database, Database)
    await ctx.engine.enqueue(send, 3)  # type: ignore[misc]
    await ctx.engine.get()  # type: ignore[call-arg]
    await ctx.engine.calls.nothing()  # type: ignore[attr-defined]


def takes_an_engine(engine: Engine) -> None: ...


def the_engine_of_a_handler_is_taken_as_an_engine(ctx: JobContext) -> None:
    takes_an_engine(ctx.engine)
    assert_type(ctx.engine.outbox, Any)
    typed: Engine = ctx.engine
    assert_type(typed.outbox, Outbox)


async def results_are_what_the_job_returns(engine: Engine) -> None:
    handle = await engine.enqueue(send, Order(1))
    assert_type(await engine.result(handle), Receipt)
    assert_type(await engine.result("an-id"), Any)


async def requests_in_bulk_are_checked_too(engine: Engine) -> None:
    await engine.enqueue_many([JobRequest(send, Order(1)), JobRequest(sweep, None)])
    JobRequest(pack, 3)  # type: ignore[misc]


def blocking_code_keeps_the_types(asynchronous: Engine) -> None:
    with asynchronous.blocking() as engine:
        assert_type(engine, BlockingEngine)
        handle = engine.enqueue(send, Order(1), owner="ann")
        assert_type(handle, JobHandle[Receipt])
        assert_type(engine.enqueue(sweep), JobHandle[None])
        assert_type(engine.result(handle), Receipt)
        assert_type(engine.result("an-id", timeout=3), Any)
        assert_type(engine.get(handle), Job | None)
        assert_type(engine.cancel("an-id"), Job)
        assert_type(engine.list(limit=3), Page)
        assert_type(engine.dead_letters.discard(["an-id"]), int)
        assert_type(engine.downstreams.state("bank"), CircuitState)
        engine.enqueue(send, 3)  # type: ignore[misc]
        engine.enqueue(send, Order(1), priority="high")  # type: ignore[call-overload]
        engine.get()  # type: ignore[call-arg]
        engine.list(limit="3")  # type: ignore[arg-type]
        engine.dead_letters.requeue(rate="3")  # type: ignore[arg-type]


def hooks_are_checked_against_their_job() -> None:
    @send.existing
    async def stored(ctx: JobContext, args: Order) -> Receipt | None:
        return None

    @send.existing
    def kept(ctx: JobContext, args: Order) -> Receipt | None:
        return None

    @send.existing  # type: ignore[arg-type]
    def other(ctx: JobContext, args: int) -> Receipt | None:
        return None

    @send.before_retry
    async def has_file(job: Job) -> None: ...


@app.job()
async def ship(ctx: JobContext, order: int, note: str, *, express: bool = False) -> Receipt:
    return Receipt(note)


@app.job()
def weigh(ctx: JobContext, order: int, scale: str) -> float:
    return 1.0


async def several_arguments_are_checked_by_their_names_and_types(engine: Engine) -> None:
    handle = await engine.enqueue(ship, ship.args(7, "fragile", express=True))
    assert_type(handle, JobHandle[Receipt])
    assert_type(await engine.enqueue(weigh, weigh.args(order=7, scale="kg")), JobHandle[float])
    ship.args(7)  # type: ignore[call-arg]
    ship.args("7", "fragile")  # type: ignore[arg-type]
    ship.args(7, "fragile", quick=True)  # type: ignore[call-arg]


async def jobs_that_follow_are_typed_as_those_of_the_engine(ctx: JobContext) -> None:
    assert_type(ctx.enqueue(send, Order(1)).id, str)
    assert_type(await ctx.enqueue(send, Order(1), delay=5), PendingJob[Receipt])
    ctx.enqueue(send, 7)  # type: ignore[misc]
