"""What calls of one name may do together: a rate, a retry budget, a number at once, and how many
blocking attempts over their time may be left behind.

The locks may be taken again by the thread that has them: a signal handler that looks at a service
runs in the middle of whatever the main thread was doing.
"""

import math
from bisect import insort
from collections import deque
from collections.abc import Callable
from threading import Lock, RLock, Thread, current_thread
from typing import Generic, TypeVar
from weakref import WeakSet

from holdfast.clock import CallCutOff, Clock
from holdfast.resilience.policy import ConcurrencyLimit, RateLimit, RetryBudget
from holdfast.resilience.recent_counts import RecentCounts

T = TypeVar("T")

MAX_ABANDONED = 16
"""Each abandoned thread holds memory and mostly a connection: 16 is about the size of a usual
connection pool, and more than a breaker with its default of 5 failures lets happen."""


class RateLimiter:
    """Give every attempt the moment at which it may start.

    Exact: no window of a second (a minute, a day) ever holds more starts than the limit. A place is
    taken when it is given, so waiting callers keep their order and do not race for the same place.
    """

    __slots__ = ("_freed", "_lock", "_spread_from", "_windows", "limit")

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self._lock = RLock()
        self._windows: list[tuple[float, deque[float]]] = [
            (period, deque(maxlen=count)) for period, count in limit.periods
        ]
        self._freed: list[float] = []
        self._spread_from = -math.inf

    def reserve(self, now: float, longest: float) -> float:
        """Return the seconds to wait before the next start; where over `longest`, take no place."""
        with self._lock:
            while self._freed and self._freed[0] < now:
                del self._freed[0]
            if self._freed:
                # Starts never go back, so a freed one comes no later than the next new one.
                wait = self._freed[0] - now
                if wait <= longest:
                    del self._freed[0]
                return wait
            wait = self._next_start(now) - now
            if wait <= longest:
                for _, starts in self._windows:
                    starts.append(now + wait)
                self._spread_from = now + wait + self.limit.gap
            return wait

    def release(self, start: float) -> None:
        """Release a place that was not used; until `start` another caller may take it.

        It cannot move to an earlier moment: others have been given theirs around it.
        """
        with self._lock:
            insort(self._freed, start)

    def _next_start(self, now: float) -> float:
        start = max(now, self._spread_from) if self.limit.spread else now
        for period, starts in self._windows:
            if len(starts) == starts.maxlen:
                start = max(start, starts[0] + period)
        return start


class RetryBudgetMeter:
    """Count the last seconds' calls and retries, and decide whether one more is affordable."""

    __slots__ = ("_lock", "_recent", "budget")

    def __init__(self, budget: RetryBudget) -> None:
        self.budget = budget
        self._lock = RLock()
        self._recent = RecentCounts(budget.window)

    def count_call(self, now: float) -> None:
        """Take note of a new call at `now`, in seconds."""
        with self._lock:
            self._recent.add(now, calls=1)

    def try_spend(self, now: float) -> bool:
        """Take one retry out of the budget; False where it is used up."""
        with self._lock:
            recent = self._recent
            recent.forget_before(now)
            if recent.marked + 1 > max(self.budget.floor, self.budget.share * recent.calls):
                return False
            recent.add(now, marked=1)
            return True


class Ticket:
    """A place in the queue for a turn; `wake` is called once the turn is granted."""

    __slots__ = ("granted", "holder", "wake")

    def __init__(self, holder: object, wake: Callable[[], None]) -> None:
        self.holder = holder
        self.wake = wake
        self.granted = False


class ConcurrencyGate:
    """Let at most `limit` attempts run at once; threads and tasks wait in one queue, in order.

    A turn belongs to its holder, so it can be ended twice without harm, and it ends with its
    holder: an interrupt (Ctrl-C) between two lines of bookkeeping loses no turn.
    """

    __slots__ = ("_holders", "_lock", "_queue", "limit")

    def __init__(self, limit: ConcurrencyLimit) -> None:
        self.limit = limit
        self._holders: WeakSet[object] = WeakSet()
        self._queue: deque[Ticket] = deque()
        self._lock = RLock()

    @property
    def running(self) -> int:
        """How many turns are taken."""
        return len(self._holders)

    def try_enter(self, holder: object) -> bool:
        """Take a turn for `holder` if one is free and no other holder waits for it."""
        with self._lock:
            # A turn that ended with its holder woke no waiter: those in line come first.
            self._grant()
            free = self.running < self.limit.limit
            if free:
                self._holders.add(holder)
            return free

    def queue(self, holder: object, wake: Callable[[], None]) -> Ticket:
        """Join the queue; `wake` is called, from any thread, once the ticket is granted.

        It is called under the lock, sometimes twice, and must neither block nor call the gate.
        """
        ticket = Ticket(holder, wake)
        with self._lock:
            self._queue.append(ticket)
            self._grant()
        return ticket

    def leave(self, holder: object) -> None:
        """End the turn of `holder`, if it has one; the first in line gets it."""
        with self._lock:
            self._holders.discard(holder)
            self._grant()

    def withdraw(self, ticket: Ticket) -> bool:
        """Leave the queue; False where the turn was granted in the meantime."""
        with self._lock:
            if ticket.granted:
                return False
            self._queue.remove(ticket)
            return True

    def give_up(self, holder: object) -> None:
        """Take `holder` out of the queue; a turn granted in the meantime goes to the next."""
        with self._lock:
            for ticket in [ticket for ticket in self._queue if ticket.holder is holder]:
                self._queue.remove(ticket)
            self.leave(holder)

    def _grant(self) -> None:
        """Give free turns to the first in line, and wake them.

        A ticket leaves the queue last: where a caller is interrupted before that, the next call of
        this method does all of it again.
        """
        while self._queue:
            ticket = self._queue[0]
            if ticket.holder not in self._holders and self.running >= self.limit.limit:
                return
            self._holders.add(ticket.holder)
            ticket.granted = True
            ticket.wake()
            # A signal handler may have done it meanwhile.
            if self._queue and self._queue[0] is ticket:
                self._queue.popleft()


class AbandonedThreads:
    """Count the threads that blocking attempts of one name, over their time, still occupy.

    An attempt that is running when `limit` is reached may add one more.
    """

    __slots__ = ("_threads", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._threads: set[Thread] = set()

    @property
    def count(self) -> int:
        """How many there are now. In a forked child those of its parent are not alive."""
        return sum(thread.is_alive() for thread in tuple(self._threads))

    @property
    def full(self) -> bool:
        """Whether a further blocking attempt with a time limit is to be refused."""
        return len(self._threads) >= self.limit and self.count >= self.limit

    def call_within(self, clock: Clock, seconds: float, operation: Callable[[], T]) -> T:
        """Return `clock.call_within(seconds, operation)`; count its thread if that is left."""
        attempt = _BlockingAttempt(operation, self._threads)
        try:
            return clock.call_within(seconds, attempt)
        finally:
            attempt.abandon()


class _BlockingAttempt(Generic[T]):
    """An operation that may outlive its caller; `abandoned` holds its thread while it does."""

    __slots__ = ("_abandoned", "_caller_left", "_lock", "_operation", "_thread")

    def __init__(self, operation: Callable[[], T], abandoned: set[Thread]) -> None:
        self._operation = operation
        self._abandoned = abandoned
        self._lock = Lock()
        self._thread: Thread | None = None
        self._caller_left = False

    def __call__(self) -> T:
        thread = current_thread()
        with self._lock:
            if self._caller_left:
                raise CallCutOff("cut off before it began")
            self._thread = thread
        try:
            return self._operation()
        finally:
            with self._lock:
                self._thread = None
                self._abandoned.discard(thread)

    def abandon(self) -> None:
        """Count the thread as abandoned if the operation still runs; do not start it any more."""
        with self._lock:
            self._caller_left = True
            if self._thread is not None:
                self._abandoned.add(self._thread)
