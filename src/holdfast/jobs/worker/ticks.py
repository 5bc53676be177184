"""The ticks of a worker that are on their way: what each reports, and for how many jobs it asks.

Where another process does the store's work, a worker sends its next tick before it starts what the
last one brought, and a second one while the first is on its way: so neither waits for the other. A
second one must be a whole batch, for many small ticks would cost more than they save.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.jobs.store_port import ClaimRequest, TickResult
from holdfast.jobs.worker.report import Reporter
from holdfast.jobs.worker.run import Run


@dataclass(slots=True, eq=False)
class Sent:
    """A tick that was sent.

    Attributes:
        answer: ends with what came of it.
        runs: the runs that it reports.
        asked: how many jobs it asks for.
        began: when it was sent, by the monotonic clock: leases last at least from then.
        alone: no other tick was on its way at any moment of it.
    """

    answer: asyncio.Task[TickResult]
    runs: Sequence[Run]
    asked: int
    began: float
    alone: bool


class Ticks:
    """Send ticks, and keep them until their answers are taken.

    Args:
        reporter: does them.
        on_answer: told that there is an answer to be taken.
    """

    def __init__(self, reporter: Reporter, on_answer: Callable[[], None]) -> None:
        self._reporter = reporter
        self._on_answer = on_answer
        self._sent: list[Sent] = []

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def asked(self) -> int:
        """How many jobs are asked for and not answered yet: they may need as many slots."""
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
        """Return a tick that was answered, the one that was sent first, and keep it no longer."""
        for place, tick in enumerate(self._sent):
            if tick.answer.done():
                return self._sent.pop(place)
        return None

    async def settle(self, seconds: float | None = None) -> None:
        """Wait until all are answered, or for so many seconds.

        None is cancelled with whoever waits: what it has claimed by then must be handed back.
        """
        if self._sent:
            await asyncio.wait([tick.answer for tick in self._sent], timeout=seconds)

    def give_up(self) -> Sequence[Sent]:
        """Cancel those that are not answered, keep them no longer and return them."""
        late = [tick for tick in self._sent if not tick.answer.done()]
        for tick in late:
            self._sent.remove(tick)
            tick.answer.cancel()
        return late
