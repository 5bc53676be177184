"""An app whose lifespan behaves as the environment says, for `holdfast worker`."""

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast import App

TRACE = Path(os.environ.get("LIFESPAN_TRACE", "/dev/null"))


def trace(line):
    with TRACE.open("a") as file:
        file.write(f"{line}\n")


@asynccontextmanager
async def lifespan(app):
    behaviour = os.environ.get("LIFESPAN", "")
    trace("enter")
    if behaviour == "raises":
        raise ConnectionRefusedError("no pool today")
    if behaviour == "hangs at start":
        await asyncio.Event().wait()
    yield os.getpid()
    while behaviour == "hangs at end":
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            trace("cancelled")
    trace("leave")


app = App("spans", lifespan=lifespan)


@app.job()
async def work(ctx) -> int:
    trace("work")
    return ctx.state


@app.job()
async def endless(ctx) -> None:
    trace("work")
    await asyncio.Event().wait()
