"""Jobs for child processes; a child imports this module."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from holdfast.errors import HoldfastError, Permanent, RetryLater
from holdfast.jobs.declare.app import App
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import RateLimit, RetryPolicy
from holdfast.time_limit import cancelled, remaining

ONE = RetryPolicy(max_attempts=1)

app = App("apart")
"""Most jobs; a worker of this app starts a child for each of them."""
memory_app = App("memory")
values_app = App("values")
context_app = App("context")


def touch(path, text=""):
    Path(path).write_text(text, "ascii")


@values_app.job(isolation="process")
def pid(ctx) -> int:
    return os.getpid()


@values_app.job(isolation="process")
def filled(ctx, size: int) -> str:
    return "x" * size


def is_below_three(number):
    return number < 3


@values_app.job(
    isolation="process",
    retry=RetryPolicy(backoff=Exponential(base=0), retry_result=is_below_three),
)
def third_time(ctx) -> int:
    return ctx.attempt


@values_app.job(isolation="process")
def several(ctx, order: int, note: str = "none") -> str:
    return f"{order} {note}"


@app.job(isolation="process", timeout=60)
def time_left(ctx) -> bool:
    left = remaining()
    return left is not None and 0 < left <= 60 and not cancelled()


@memory_app.job(
    isolation="process", retry=RetryPolicy(max_attempts=2, backoff=Exponential(base=0.0))
)
async def echo(ctx, args: str) -> str:
    await asyncio.sleep(0)
    return f"{args} {ctx.attempt} {ctx.idempotency_key}"


@app.job(isolation="process", retry=RetryPolicy(max_attempts=2, backoff=Exponential(base=60)))
def fail(ctx, args: str):
    if args == "permanent":
        raise Permanent("PARSE_ERROR", "no good")
    if args == "later":
        raise RetryLater(7)
    if args == "exit":
        sys.exit(3)
    raise ConnectionError("refused")


@app.job(isolation="process", retry=ONE)
def die(ctx, args: str):
    if args == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if args == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(5)


@app.job(isolation="process", retry=ONE)
def hang_up(ctx, args: str):
    """Close this process's connection to the parent: for writing, or completely."""
    if args == "close":
        # A thread of the child may be blocked in a read, which keeps it open until the child ends.
        os.closerange(3, 65536)
        return
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as one:
            one.shutdown(socket.SHUT_WR)
    time.sleep(60)


@app.job(isolation="process")
def fork(ctx) -> int:
    """Fork, and return in both processes."""
    return os.fork() and os.getpid()


@app.job(isolation="process", retry=ONE)
def chatter(ctx, args: int):
    for step in range(args):
        ctx.progress(step / args, f"step {step}")
    ctx.progress(1.0, "the last")
    while not ctx.cancel_requested:
        time.sleep(0.01)


@app.job(isolation="process", retry=ONE)
def hog(ctx) -> int:
    return len(bytearray(2 * 1024**3))


@memory_app.job(
    isolation="process", retry=RetryPolicy(max_attempts=3, backoff=Exponential(base=0.0))
)
def grow(ctx, args: str):
    """Allocate more and more memory, as a member of the control group `args` if one is named."""
    if args:
        Path(args, "cgroup.procs").write_text(str(os.getpid()), "ascii")
    kept = []
    while True:
        kept.append(b"x" * 1024**2)


@app.job(isolation="process", retry=ONE)
def burn(ctx):
    while True:
        pass


@app.job(isolation="process", timeout=2, retry=ONE)
def hang(ctx, args: str):
    grandchild = subprocess.Popen(["sleep", "600"])
    Path(args).write_text(f"{os.getpid()} {grandchild.pid}", "ascii")
    time.sleep(600)


@app.job(isolation="process")
def shout(ctx, args: int) -> str:
    sys.stdout.write("what a handler prints does not disturb the answer\n")
    return "x" * args


@app.job(isolation="process")
def report(ctx, args: str):
    ctx.progress(0.5, "half")
    while not Path(args).exists():
        time.sleep(0.01)


@app.job(isolation="process")
async def wait_async(ctx, args: str):
    try:
        touch(args)
        await asyncio.sleep(600)
    finally:
        touch(args, str(ctx.cancel_reason))


@app.job(isolation="process")
def wait_blocking(ctx, args: str):
    Path(args).touch()
    while True:
        time.sleep(0.01)
        ctx.raise_if_cancelled()


@app.job(isolation="process")
def deaf(ctx, args: str):
    Path(args).write_text(str(os.getpid()), "ascii")
    time.sleep(600)


@app.job(isolation="process", retry=RetryPolicy(backoff=Exponential(base=0.0)))
def again(ctx) -> str:
    raise ConnectionError


@again.existing
async def there(ctx, args):
    return "from before"


def inside():
    """Return an app whose job cannot be imported by a child."""
    local = App("local")

    @local.job(isolation="process")
    def hidden(ctx): ...

    return local


SEEN: list[tuple[str, type, str]] = []
"""What the middleware of `wrapped_app` saw, in the worker's process."""


async def watching(ctx, call_next):
    try:
        return await call_next() + 1
    except Exception as error:
        SEEN.append((ctx.job_id, type(error), error.code))
        raise


wrapped_app = App("wrapped", middleware=[watching])


@wrapped_app.job(isolation="process", retry=ONE)
def wrapped(ctx, args: int) -> int:
    if args < 0:
        raise Permanent("NEGATIVE", "below zero")
    return args * 2


@context_app.job(isolation="process")
def surroundings(ctx) -> list[str]:
    """Return why each of these is refused in a child process."""
    refusals = []
    uses = (
        lambda: ctx.state,
        lambda: ctx.database,
        lambda: ctx.shared_rate("gemini", RateLimit(per_minute=1)),
        lambda: ctx.enqueue("values.pid"),
        ctx.transaction,
    )
    for use in uses:
        try:
            use()
        except HoldfastError as error:
            refusals.append(f"{error.code}: {error}")
    return refusals
