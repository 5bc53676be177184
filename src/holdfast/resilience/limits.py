"""What many calls of one name may do together: a rate, a retry budget, a number at once."""

from bisect import insort
from collections import deque
from collections.abc import Callable
from threading import Lock

from holdfast.resilience.policy import ConcurrencyLimit, RateLimit, RetryBudget
from holdfast.resilience.recent import RecentCounts

MINUTE = 60.0
DAY = 86_400.0


class RateLimiter:
    """Give every attempt the moment at which it may start.

    Exact: no window of a minute (a day) ever holds more starts than the limit. A place is taken
    when it is given, so waiting callers keep their order and do not race for the same place.
    """

    __slots__ = ("_freed", "_lock", "_windows", "limit")

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self._lock = Lock()
        self._windows: list[tuple[float, deque[float]]] = [
            (period, deque(maxlen=count))
            for period, count in ((MINUTE, limit.per_minute), (DAY, limit.per_day))
            if count is not None
        ]
        self._freed: list[float] = []

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
            return wait

    def give_back(self, start: float) -> None:
        """Return a place that was not used; until `start` another caller may have it.

        It cannot move to an earlier moment: others have been given theirs around it.
        """
        with self._lock:
            insort(self._freed, start)

    def _next_start(self, now: float) -> float:
        start = now
        for period, starts in self._windows:
            if len(starts) == starts.maxlen:
                start = max(start, starts[0] + period)
        return start


class RetryBudgetMeter:
    """Count calls and retries of the last seconds, and say whether one more retry is affordable."""

    __slots__ = ("_lock", "_recent", "budget")

    def __init__(self, budget: RetryBudget) -> None:
        self.budget = budget
        self._lock = Lock()
        self._recent = RecentCounts(budget.window)

    def count_call(self, now: float) -> None:
        """Take note of a new call at `now`, in seconds."""
        with self._lock:
            self._recent.add(now, calls=1)

    def try_spend(self, now: float) -> bool:
        """Take one retry out of the budget, or say that it is used up."""
        with self._lock:
            recent = self._recent
            recent.forget_before(now)
            if recent.marked + 1 > max(self.budget.floor, self.budget.share * recent.calls):
                return False
            recent.add(now, marked=1)
            return True


class Ticket:
    """A place in the queue for a turn; `wake` is called once the turn is granted."""

    __slots__ = ("granted", "wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.granted = False


class ConcurrencyGate:
    """Let at most `limit` attempts run at once; threads and tasks wait in one queue, in order."""

    __slots__ = ("_lock", "_queue", "limit", "running")

    def __init__(self, limit: ConcurrencyLimit) -> None:
        self.limit = limit
        self.running = 0
        self._queue: deque[Ticket] = deque()
        self._lock = Lock()

    def try_enter(self) -> bool:
        """Take a turn if one is free; then nobody is waiting, as free turns are granted at once."""
        with self._lock:
            if self.running >= self.limit.limit:
                return False
            self.running += 1
            return True

    def queue(self, wake: Callable[[], None]) -> Ticket:
        """Stand in line; `wake` is called, from any thread, once the ticket is granted."""
        ticket = Ticket(wake)
        with self._lock:
            self._queue.append(ticket)
            woken = self._grant()
        for each in woken:
            each.wake()
        return ticket

    def leave(self) -> None:
        """End a turn; the first in line gets it."""
        with self._lock:
            self.running -= 1
            woken = self._grant()
        for each in woken:
            each.wake()

    def withdraw(self, ticket: Ticket) -> bool:
        """Step out of the line; False says that the turn was granted in the meantime."""
        with self._lock:
            if ticket.granted:
                return False
            self._queue.remove(ticket)
            return True

    def give_up(self, ticket: Ticket) -> None:
        """Step out of the line; a turn granted in the meantime goes to the next."""
        if not self.withdraw(ticket):
            self.leave()

    def _grant(self) -> list[Ticket]:
        woken = []
        while self._queue and self.running < self.limit.limit:
            ticket = self._queue.popleft()
            ticket.granted = True
            self.running += 1
            woken.append(ticket)
        return woken
