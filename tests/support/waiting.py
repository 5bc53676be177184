"""Wait for conditions instead of sleeping."""

import asyncio
from collections.abc import Callable
from typing import Any

SOON = 60.0
"""Seconds after which a test gives up waiting; reached only when something is broken."""


async def until(fact: Callable[[], Any], seconds: float = SOON) -> Any:
    """Poll `fact` until it is true, and return its value. `fact` may be async."""
    async with asyncio.timeout(seconds):
        while True:
            answer = fact()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(0.01)


def until_sync(fact: Callable[[], Any], seconds: float = SOON) -> Any:
    """Poll `fact` until it is true, and return its value, in code that is not async."""
    return asyncio.run(until(fact, seconds))


class Calls:
    """Counts the calls of a method of an object that only one test uses."""

    def __init__(self, owner: Any, name: str) -> None:
        self.count = 0
        self._method = getattr(owner, name)
        setattr(owner, name, self._note)

    def _note(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self._method(*args, **kwargs)

    async def more(self, count: int = 1) -> None:
        """Wait until it has been called so many times more."""
        wanted = self.count + count
        await until(lambda: self.count >= wanted)
