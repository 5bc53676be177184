"""A timeout for the next piece of a body."""

import asyncio
from collections.abc import AsyncIterator


async def with_stall_timeout(body: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yield the pieces of `body`.

    Raises:
        TimeoutError: the next one did not come within `seconds`.
    """
    while True:
        async with asyncio.timeout(seconds):
            piece = await anext(body, None)
        if piece is None:
            return
        yield piece
