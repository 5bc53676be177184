"""The job kinds of the campaigns. A handler writes its effect to the ledger before it returns."""

import json
import os
import time
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from campaigns.ledger import ADDRESS, LedgerClient, Line
from campaigns.recording_store import CRASH, CrashPoint
from holdfast.errors import ErrorCode, Permanent
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

app = App("campaign")

_NO_DELAY = Exponential(base=0.0, jitter=0.0)
PATIENT = RetryPolicy(max_attempts=200, backoff=_NO_DELAY)
"""Enough attempts for any number of kills, so that every job must end complete."""

GATEWAY = Downstream(
    "gateway",
    breaker=BreakerPolicy(consecutive_failures=5, open_for=1.0, trial_calls=3),
    ramp_seconds=1.0,
)
"""The downstream that fails in the brownout campaign."""

ELSEWHERE = Downstream("elsewhere")
"""A downstream that never fails."""


@cache
def ledger() -> LedgerClient:
    """Return this process's client of the ledger."""
    return LedgerClient(int(os.environ[ADDRESS]))


@cache
def crash_point() -> CrashPoint:
    """Return this process's crash point."""
    return CrashPoint(os.environ.get(CRASH, ""))


def record_effect(ctx: JobContext, what: str = "effect") -> None:
    """Write the effect of this attempt to the ledger."""
    now = time.monotonic()
    ledger().record(
        Line("effect", ctx.job_id, ctx.token, ctx.attempt, True, now, now, os.getpid(), what)
    )


@app.job(retry=PATIENT)
def effect(ctx: JobContext, args: float) -> int:
    """Take `args` seconds, and record an effect in the middle."""
    time.sleep(args / 2)
    record_effect(ctx)
    crash_point().passed("after_effect")
    time.sleep(args / 2)
    return ctx.token


@app.job(retry=PATIENT)
def gated(ctx: JobContext, args: str) -> int:
    """Wait for the file `args`; if it names this process, end the first attempt as it says."""
    record_effect(ctx)
    gate = Path(args)
    while not gate.exists():
        time.sleep(0.005)
    orders = json.loads(gate.read_text())
    chosen = ctx.attempt == 1 and orders["process"] == os.getpid()
    ending = orders["endings"].get(ctx.job_id, "") if chosen else ""
    if ending == "retry":
        raise ConnectionError("from the paused worker")
    if ending == "failed":
        raise Permanent(ErrorCode.GW_4XX, "from the paused worker")
    if ending == "progress":
        ctx.progress(0.5, f"token {ctx.token}")
        time.sleep(0.6)
    return ctx.token


@app.job(downstream=GATEWAY, retry=PATIENT)
def call(ctx: JobContext, args: str) -> int:
    """Call the scripted downstream at the address `args`."""
    record_effect(ctx)
    try:
        with urlopen(args, timeout=10) as answer:  # noqa: S310 - the loopback
            answer.read()
    except HTTPError as error:
        raise ConnectionError(f"answered {error.code}") from None
    return ctx.token


@app.job(downstream=ELSEWHERE)
async def other(ctx: JobContext) -> int:
    """Do nothing, on a downstream that never fails."""
    return ctx.token
