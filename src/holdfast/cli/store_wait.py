"""Open an engine whose store may not answer yet."""

import asyncio
from contextlib import AsyncExitStack, suppress

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
            if await _opened_unless(stopped, engine, stack):
                outage.back("start")
                return True
        except StoreUnavailable as error:
            outage.lost("start", error)
            failures += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(_BACKOFF.nominal(failures)):
                    await stopped.wait()
    return False


async def _opened_unless(
    stopped: asyncio.Event, engine: bootstrap.Engine, stack: AsyncExitStack
) -> bool:
    """Try once. A host that is silent may take long, so `stopped` ends the attempt."""
    opening = asyncio.create_task(stack.enter_async_context(engine))
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((opening, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        opening.cancel()  # changes nothing where it has ended
        await asyncio.wait((opening,))
    if opening.cancelled():
        return False
    opening.result()
    return True
