"""The jobs of the campaigns. What they do is written to the ledger before they return."""

import os
import time
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from campaigns.ledger import ADDRESS, LedgerClient, Line
from campaigns.watched import CRASH, CrashPoint
from holdfast.errors import ErrorCode, Permanent
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.downstream import Downstream
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

app = App("campaign")

_AT_ONCE = Exponential(base=0.0, jitter=0.0)
PATIENT = RetryPolicy(max_attempts=200, backoff=_AT_ONCE)
"""Enough attempts for any number of kills: no job may end otherwise than complete."""

GATEWAY = Downstream(
    "gateway",
    breaker=BreakerPolicy(consecutive_failures=5, open_for=1.0, trial_calls=3),
    ramp_seconds=1.0,
)
"""The dependency that browns out."""

ELSEWHERE = Downstream("elsewhere")
"""One that is always well."""


@cache
def ledger() -> LedgerClient:
    """Return this process's way to the ledger."""
    return LedgerClient(int(os.environ[ADDRESS]))


@cache
def crash_point() -> CrashPoint:
    """Return where this process is to die."""
    return CrashPoint(os.environ.get(CRASH, ""))


def note(ctx: JobContext, what: str = "effect") -> None:
    """Write the effect of this attempt down."""
    now = time.monotonic()
    ledger().record(
        Line("effect", ctx.job_id, ctx.token, ctx.attempt, True, now, now, os.getpid(), what)
    )


@app.job(retry=PATIENT)
def effect(ctx: JobContext, args: float) -> int:
    """Do something of `args` seconds that leaves a row."""
    time.sleep(args / 2)
    note(ctx)
    crash_point().passed("after_effect")
    time.sleep(args / 2)
    return ctx.token


@app.job(retry=PATIENT)
def gated(ctx: JobContext, args: dict[str, str]) -> int:
    """Wait for a file; where it names this process, end the first attempt as told."""
    note(ctx)
    gate = Path(args["gate"])
    while not gate.exists():
        time.sleep(0.005)
    then = args["then"] if ctx.attempt == 1 and gate.read_text() == str(os.getpid()) else ""
    if then == "retry":
        raise ConnectionError("from the one that was stopped")
    if then == "failed":
        raise Permanent(ErrorCode.GW_4XX, "from the one that was stopped")
    if then == "progress":
        ctx.progress(0.5, f"token {ctx.token}")
        time.sleep(0.6)
    return ctx.token


@app.job(downstream=GATEWAY, retry=PATIENT)
def call(ctx: JobContext, args: str) -> int:
    """Call the scripted downstream at the address `args`."""
    note(ctx)
    try:
        with urlopen(args, timeout=10) as answer:  # noqa: S310 - the loopback
            answer.read()
    except HTTPError as error:
        raise ConnectionError(f"answered {error.code}") from None
    return ctx.token


@app.job(downstream=ELSEWHERE)
async def other(ctx: JobContext) -> int:
    """Do nothing, for a downstream that is well."""
    return ctx.token
