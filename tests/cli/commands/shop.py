"""A store with jobs, for the tests of commands."""

import asyncio

from holdfast import (
    App,
    BreakerPolicy,
    Downstream,
    Engine,
    Job,
    JobContext,
    Permanent,
    RetryPolicy,
)

app = App("shop")
bank = Downstream("bank", breaker=BreakerPolicy(consecutive_failures=2, open_for=3600))


@app.job(downstream=bank, retry=RetryPolicy(max_attempts=1))
async def charge(ctx: JobContext, amount: int) -> int:
    """Fail in two ways: for good, or as a downstream does."""
    if amount < 0:
        raise Permanent("CARD_DECLINED", f"Ask your bank about {amount}.")
    if amount == 0:
        raise ConnectionError("no bank")
    return amount


@charge.before_retry
def check_retry(job: Job) -> None:
    """Refuse to retry the charge of -13."""
    if job.arguments == "-13":
        raise Permanent("UNLUCKY", "This is never retried.")


@app.job(queue="mail")
async def mail(ctx: JobContext, letter: str) -> None:
    """Send nothing."""


@app.periodic(every=3600)
async def tidy(ctx: JobContext) -> None:
    """Tidy nothing."""


def filled(url, *amounts, letters=0, work=True):
    """Enqueue charges and letters, run the charges, and return the ids in that order."""

    async def fill():
        async with Engine(url, apps=[app]) as engine:
            jobs = [await engine.enqueue(charge, amount) for amount in amounts]
            if work:
                await engine.work(until_idle=True, queues=["default"], concurrency=1)
            jobs += [await engine.enqueue(mail, "hello") for _ in range(letters)]
            return [job.id for job in jobs]

    return asyncio.run(fill())


def with_engine(url, work):
    """Return what `work` returns when it is called with an open engine."""

    async def run():
        async with Engine(url, apps=[app]) as engine:
            return await work(engine)

    return asyncio.run(run())
