"""The two apps of the campaign `production`: `shop` calls many hosts, `mail` serves many owners.

One job in a hundred is poison: it can only fail, and some poison kills the worker that runs it.
"""

import asyncio
import os
import signal
import time
from dataclasses import dataclass

from campaigns.jobs import PATIENT, record_effect
from holdfast.errors import ErrorCode, Permanent
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

shop = App("shop")
mail = App("mail")

_FAILED_CALLS = 2
"""Calls that fail for each job of a flaky host, before one succeeds."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document to fetch: its host, the seconds that takes, and how the host behaves."""

    host: str
    seconds: float
    poison: bool = False
    flaky: bool = False


HOST = Downstream(
    "host",
    breaker=BreakerPolicy(consecutive_failures=5, open_for=1.0, trial_calls=2),
    ramp_seconds=0.5,
    key=lambda document: document.host,
)
"""One downstream per host."""


@shop.job(downstream=HOST, retry=PATIENT)
def fetch(ctx: JobContext, args: Document) -> int:
    """Call the host of a document."""
    time.sleep(args.seconds)
    if args.flaky and ctx.attempt <= _FAILED_CALLS:
        raise ConnectionResetError("the host closed the connection")
    record_effect(ctx)
    if args.poison:
        raise Permanent(ErrorCode.GW_4XX, "the host refuses this document")
    return ctx.token


@mail.job(retry=PATIENT)
async def send(ctx: JobContext, args: float) -> int:
    """Take `args` seconds, and record an effect."""
    await asyncio.sleep(args)
    await asyncio.to_thread(record_effect, ctx)
    return ctx.token


@mail.job(retry=RetryPolicy(max_attempts=3, backoff=Exponential(base=0.05, jitter=0.0)))
def unreadable(ctx: JobContext) -> int:
    """Raise an error that is not known, in every attempt."""
    record_effect(ctx)
    raise ValueError("this message cannot be read")


@mail.job(retry=RetryPolicy(max_attempts=2))
def fatal(ctx: JobContext) -> int:
    """Kill the worker, in every attempt."""
    record_effect(ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    return ctx.token
