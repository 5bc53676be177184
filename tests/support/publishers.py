"""A publisher for tests that follows a script."""

import asyncio

from holdfast.outbox.ports import PublisherUnavailable


class ScriptedPublisher:
    """Keeps what it takes; `script` may raise, or wait, for each message.

    `available` is cleared to make the receiver unreachable.
    """

    def __init__(self, script=None):
        self.taken = []
        self.script = script
        self.available = True
        self.opened = 0
        self.closed = 0
        self.arrived = asyncio.Event()

    @property
    def ids(self):
        """The ids of what was taken, in order."""
        return [message.id for message in self.taken]

    async def open(self):
        self.opened += 1
        self._check()

    async def close(self):
        self.closed += 1

    async def publish(self, message):
        self._check()
        if self.script is not None:
            answer = self.script(message)
            if asyncio.iscoroutine(answer):
                await answer
        self.taken.append(message)
        self.arrived.set()

    def _check(self):
        if not self.available:
            raise PublisherUnavailable("the broker is away")
