"""`ctx.engine`: the engine whose worker runs an attempt."""

import asyncio

from holdfast import App, Engine, JobContext


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
