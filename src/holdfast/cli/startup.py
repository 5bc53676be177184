"""Start what a command needs, unless it is asked to stop meanwhile."""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any

from holdfast import bootstrap
from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.resilience.backoff import Exponential

_BACKOFF = Exponential(base=0.25, multiplier=2, cap=5.0, jitter=0.0)


async def opened(
    engine: bootstrap.Engine, stack: AsyncExitStack, name: str, stopped: asyncio.Event
) -> bool:
    """Open `engine` until `stack` is closed; wait for a store that does not answer.

    The log says that it waits and what for, under `name`.

    Returns:
        False where `stopped` was set before the store answered.

    Raises:
        StoreUnusable: waiting does not help: the address, the account or the schema is wrong.
    """
    outage, failures = Outage(name, SYSTEM_CLOCK, ()), 0
    while not stopped.is_set():
        try:
            if await entered(engine, stack, stopped):
                outage.back("start")
                return True
        except StoreUnavailable as error:
            outage.lost("start", error)
            failures += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(_BACKOFF.nominal(failures)):
                    await stopped.wait()
    return False


async def entered(
    context: AbstractAsyncContextManager[Any], stack: AsyncExitStack, stopped: asyncio.Event
) -> bool:
    """Enter `context` until `stack` is closed; it is cancelled when `stopped` is set meanwhile.

    Returns:
        False where it was cancelled.
    """
    entering = asyncio.create_task(stack.enter_async_context(context))
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((entering, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        entering.cancel()  # changes nothing where it has ended
        await asyncio.wait((entering,))
    if entering.cancelled():
        return False
    entering.result()
    return True
