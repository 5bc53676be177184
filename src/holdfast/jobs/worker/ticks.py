"""The ticks in flight: what each one reports, and how many jobs it asks for.

Where the store is another process, a worker sends its next tick before it starts the jobs of the
last one, and a second tick while the first is in flight, so that worker and store do not wait for
each other. A second tick must be a whole batch: many small ticks would cost more than they save.

Two ticks in flight may be stored in either order. Breakers are judged in the order in which calls
ended, so a tick that reports a call which did not succeed is never in flight with another. The
order of successes does not matter.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.store_port import ClaimRequest, TickResult
from holdfast.jobs.worker.report import Reporter
from holdfast.jobs.worker.run import Run

_MOST_TICKS = 2
"""Ticks in flight at once: one that the store works on, and one that waits for it."""


@dataclass(slots=True, eq=False)
class Sent:
    """A tick in flight.

    Attributes:
        answer: the task that ends with its result.
        runs: the runs that it reports.
        asked: how many jobs it asks for.
        began: when it was sent, by the monotonic clock: leases are valid at least from then.
        alone: no other tick was in flight at the same time.
        has_failed_calls: it reports a call of a downstream that did not succeed.
    """

    answer: asyncio.Task[TickResult]
    runs: Sequence[Run]
    asked: int
    began: float
    alone: bool
    has_failed_calls: bool


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

    def allow(self, runs: Sequence[Run]) -> bool:
        """Say whether a tick that reports `runs` may be sent beside those in flight."""
        if not self._sent:
            return True
        if len(self._sent) >= _MOST_TICKS or any(tick.has_failed_calls for tick in self._sent):
            return False
        return not _have_failed_calls(runs)

    def send(self, runs: Sequence[Run], request: ClaimRequest | None, began: float) -> Sent:
        """Send a tick from the running event loop."""
        answer = asyncio.get_running_loop().create_task(self._reporter.tick(runs, request))
        answer.add_done_callback(lambda _: self._on_answer())
        for other in self._sent:
            other.alone = False
        asked = 0 if request is None else request.limit
        tick = Sent(answer, runs, asked, began, not self._sent, _have_failed_calls(runs))
        self._sent.append(tick)
        return tick

    def next_answered(self) -> Sent | None:
        """Remove and return the earliest answered tick."""
        for place, tick in enumerate(self._sent):
            if tick.answer.done():
                return self._sent.pop(place)
        return None

    async def settle(self, seconds: float) -> None:
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


def _have_failed_calls(runs: Sequence[Run]) -> bool:
    calls = (None if run.report is None else run.report.report for run in runs)
    return any(call is not None and call.verdict is not Verdict.SUCCESS for call in calls)
