"""Jobs for fault tests. A ledger file records what they do, one line each."""

import asyncio
import json
import os
import time
from pathlib import Path

from holdfast.errors import Permanent, RetryLater
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

app = App("faults")

NOW = Exponential(base=0.0, jitter=0.0)
LEDGER = Path(os.environ.get("FAULTS_LEDGER", "/dev/null"))


def note(ctx, what):
    """Write a line to the ledger."""
    write_line([ctx.job_id, ctx.attempt, ctx.token, what])


def write_line(words):
    """Append a line to the ledger atomically, also with several writers."""
    line = json.dumps(words) + "\n"
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def ledger(path):
    """Return the lines of a ledger."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


@app.job(retry=RetryPolicy(max_attempts=50, backoff=NOW))
def effect(ctx, args: float) -> int:
    note(ctx, "start")
    time.sleep(args)
    note(ctx, "end")
    return ctx.token


@app.job(retry=RetryPolicy(max_attempts=5, backoff=NOW))
def freeze(ctx, args: dict) -> str:
    """Wait for the job's gate file; the first attempt ends as the file says, the next completes.

    A first attempt without an instruction waits until it is asked to stop.
    """
    note(ctx, "start")
    if ctx.attempt > 1:
        ctx.progress(0.5, "heir")
    while not Path(args["gates"], f"gate-{ctx.attempt}").exists():
        time.sleep(0.005)
    if ctx.attempt > 1:
        return "heir"
    match args["write"]:
        case "completion":
            return "zombie"
        case "retry":
            raise ConnectionError("from the one that was stopped")
        case "failure":
            raise Permanent("PARSE_ERROR", "from the one that was stopped")
        case "progress":
            ctx.progress(0.9, "zombie")
    while True:
        ctx.raise_if_cancelled()
        time.sleep(0.005)


@app.job(retry=RetryPolicy(max_attempts=5, backoff=NOW))
async def block(ctx, args: float) -> str:
    note(ctx, "start")
    time.sleep(args)  # noqa: ASYNC251 - blocking the loop is the point
    return "done"


@app.job(retry=RetryPolicy(max_attempts=3, backoff=NOW))
async def crash(ctx):
    note(ctx, "start")
    os._exit(9)


@app.job(retry=RetryPolicy(max_attempts=3, backoff=Exponential(base=45)))
async def failing(ctx):
    raise ConnectionError("not today")


@app.job(retry=RetryPolicy(max_attempts=3))
async def later(ctx, args: float):
    """Raise RetryLater once."""
    if ctx.attempt == 1:
        raise RetryLater(args)


@app.job(retry=RetryPolicy(max_attempts=5, backoff=NOW))
async def long(ctx, args: float):
    """Run for so many seconds, unless it is cancelled."""
    note(ctx, f"start {os.getpid()}")
    try:
        await asyncio.sleep(args)
    except asyncio.CancelledError:
        note(ctx, "cancelled")
        raise


@app.job()
async def quick(ctx):
    note(ctx, "start")


@app.job()
def slow(ctx, args: float) -> str:
    time.sleep(args)
    return "late"


GATEWAY = Downstream(
    "gateway",
    breaker=BreakerPolicy(consecutive_failures=3, open_for=1.0, trial_calls=2),
    ramp_seconds=0,
)


@app.job(downstream=GATEWAY, retry=RetryPolicy(max_attempts=20, backoff=NOW))
def call(ctx, args: str):
    note(ctx, "start")
    if Path(args, "down").exists():
        raise ConnectionError("down")
    while not Path(args, "go").exists():
        time.sleep(0.005)
    note(ctx, "end")


@app.job(downstream=Downstream("elsewhere"))
async def other(ctx):
    note(ctx, "start")
