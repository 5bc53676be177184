"""An app in every state that the dashboard shows: failed, held, waiting, paused, periodic."""

import asyncio
from dataclasses import dataclass

import apsw
from tests.support.publishers import ScriptedPublisher

from holdfast import App, BreakerPolicy, Downstream, Exponential, JobContext, RetryPolicy
from holdfast.errors import Permanent
from holdfast.jobs.maintenance.counter_marks import CounterMarks
from holdfast.outbox import MessageRefused, RelayOptions


@dataclass(frozen=True, slots=True)
class Order:
    number: int = 1
    api_key: str = "hunter2"


def busy_app() -> App:
    """Return an app whose kinds end in different ways."""
    app = App("shop")
    smtp = Downstream("smtp", breaker=BreakerPolicy(consecutive_failures=1, open_for=900))

    @app.job(downstream=smtp)
    async def mail(ctx: JobContext, args: Order) -> None:
        raise ConnectionError("smtp.example.org refused the connection")

    @app.job(queue="payments")
    async def charge(ctx: JobContext, args: Order) -> None:
        raise Permanent("CARD_DECLINED", f"card {args.number} was declined by its bank")

    @app.job()
    async def report(ctx: JobContext, args: Order) -> int:
        return args.number

    @app.job(retry=RetryPolicy(max_attempts=3, backoff=Exponential(base=900, cap=900)))
    async def sync_stock(ctx: JobContext, args: Order) -> None:
        raise TimeoutError("the warehouse took too long")

    @app.job()
    async def wait(ctx: JobContext, args: Order) -> None:
        await asyncio.sleep(3600)

    @app.periodic(every=3600)
    async def tidy(ctx: JobContext) -> None: ...

    return app


async def fill(engine, dead: int = 12) -> dict[str, str]:
    """Run jobs of every kind, and return the id of one job, and of one message, of each."""
    found = {}
    # Before the first job: else the worker's leader may count some of them as older.
    await CounterMarks(engine.store, interval=300).round()
    for number in range(dead):
        found["charge"] = (await engine.enqueue("shop.charge", Order(number))).id
    for kind in ("report", "report", "sync_stock", "mail"):
        found[kind] = (await engine.enqueue(f"shop.{kind}", Order())).id
    await engine.work(until_idle=True)
    found["held"] = (await engine.enqueue("shop.mail", Order())).id
    found["later"] = (await engine.enqueue("shop.report", Order(), delay=3600)).id
    await engine.kinds.pause("shop.wait")
    found["wait"] = (await engine.enqueue("shop.wait", Order())).id
    found["failed message"] = await _failed_message(engine)
    return found


async def _failed_message(engine) -> str:
    def refuse(message):
        raise MessageRefused("no queue takes order.placed")

    connection = apsw.Connection(str(engine.store.path))
    with connection:
        added = await engine.outbox.add(connection, "order-7", "order.placed", {})
    connection.close()
    relay = engine.relay(ScriptedPublisher(refuse), RelayOptions(max_attempts=1))
    await relay.run(until_idle=True)
    return added
