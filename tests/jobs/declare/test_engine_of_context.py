"""`ctx.engine`: the engine whose worker runs an attempt."""

import asyncio
import inspect
from typing import Any, get_type_hints

import pytest

from holdfast import App, Engine, JobContext
from holdfast.jobs.declare.handler_engine import EngineMethods, HandlerEngine

METHODS = [
    name for name, value in vars(EngineMethods).items() if callable(value) and name[0] != "_"
]


def test_a_handler_reaches_the_engine_that_runs_it(tmp_path):
    app = App("shop")

    @app.job()
    async def announce(ctx: JobContext, order: str) -> str:
        async with ctx.transaction() as connection:
            return await ctx.engine.outbox.add(connection, order, "order.placed", {"order": order})

    async def main():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            job = await engine.enqueue(announce, "order-7")
            await engine.work(until_idle=True)
            (message,) = (await engine.outbox.list()).messages
            assert (await engine.result(job)) == message.id
            assert message.aggregate_id == "order-7"

    asyncio.run(main())


@pytest.mark.parametrize("name", METHODS)
def test_the_type_that_editors_see_has_the_engines_own_signatures(name):
    assert inspect.signature(getattr(EngineMethods, name)) == inspect.signature(
        getattr(Engine, name)
    )


def test_the_type_that_editors_see_has_attributes_of_the_engine(tmp_path):
    assert len(METHODS) > 10
    engine = Engine(f"sqlite:///{tmp_path}/work.db")
    assert {name for name in EngineMethods.__annotations__ if not hasattr(engine, name)} == set()
    assert isinstance(Engine.database, property)


def test_its_annotation_can_be_resolved_at_run_time():
    assert get_type_hints(JobContext.engine.fget) == {"return": HandlerEngine}
    assert HandlerEngine is Any
