"""The ticks in flight: what each one reports, and how many jobs it asks for.

Where the store is another process, a worker sends its next tick before it starts the jobs of the
last one, and a second tick while the first is in flight, so that worker and store do not wait for
each other. A second tick must be a whole batch: many small ticks would cost more than they save.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.jobs.store_port import ClaimRequest, TickResult
from holdfast.jobs.worker.report import Reporter
from holdfast.jobs.worker.run import Run


@dataclass(slots=True, eq=False)
class Sent:
    """A tick in flight.

    Attributes:
        answer: the task that ends with its result.
        runs: the runs that it reports.
        asked: how many jobs it asks for.
        began: when it was sent, by the monotonic clock: leases are valid at least from then.
        alone: no other tick was in flight at the same time.
    """

    answer: asyncio.Task[TickResult]
    runs: Sequence[Run]
    asked: int
    began: float
    alone: bool


class Ticks:
    """Send ticks, and keep them until their answers are processed.

    Args:
        reporter: sends them to the store.
        on_answer: called when an answer has arrived.
    """

    def __init__(self, reporter: Reporter, on_answer: Callable[[], None]) -> None:
        self._reporter = reporter
        self._on_answer = on_answer
        self._sent: list[Sent] = []

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def asked(self) -> int:
        """How many jobs the ticks in flight ask for: each may need a slot."""
        return sum(tick.asked for tick in self._sent)

    def send(self, runs: Sequence[Run], request: ClaimRequest | None, began: float) -> Sent:
        """Send a tick from the running event loop."""
        answer = asyncio.get_running_loop().create_task(self._reporter.tick(runs, request))
        answer.add_done_callback(lambda _: self._on_answer())
        for other in self._sent:
            other.alone = False
        tick = Sent(answer, runs, 0 if request is None else request.limit, began, not self._sent)
        self._sent.append(tick)
        return tick

    def next_answered(self) -> Sent | None:
        """Remove and return the earliest answered tick."""
        for place, tick in enumerate(self._sent):
            if tick.answer.done():
                return self._sent.pop(place)
        return None

    async def settle(self, seconds: float | None = None) -> None:
        """Wait until all are answered, at most `seconds`.

        Cancelling the caller does not cancel the ticks: jobs they claim must still be released.
        """
        if self._sent:
            await asyncio.wait([tick.answer for tick in self._sent], timeout=seconds)

    def cancel(self) -> Sequence[Sent]:
        """Cancel, remove and return the unanswered ticks."""
        late = [tick for tick in self._sent if not tick.answer.done()]
        for tick in late:
            self._sent.remove(tick)
            tick.answer.cancel()
        return late
