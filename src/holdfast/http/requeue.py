"""The requeue of dead letters that runs at a pace, in the background of one server."""

import asyncio

from holdfast.jobs.client.dead_letters import DeadLetters, Requeued
from holdfast.jobs.views import JobFilter


class PacedRequeue:
    """Run one paced requeue at a time."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Requeued] | None = None
        self.so_far = Requeued(0, 0)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._task is not None and not self._task.done()

    def start(self, dead_letters: DeadLetters, where: JobFilter, rate: float) -> None:
        """Begin to requeue what `where` selects, `rate` jobs a second."""
        self.so_far = Requeued(0, 0)
        self._task = asyncio.create_task(
            dead_letters.requeue(where, rate=rate, progress=self._note)
        )

    def stop(self) -> None:
        """End it where it is; what was requeued stays so."""
        if self._task is not None:
            self._task.cancel()

    def _note(self, so_far: Requeued) -> None:
        self.so_far = so_far
