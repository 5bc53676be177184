"""The engine of a Celery process: opened at its first use, after the fork, and closed with it."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from celery import Celery, signals

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.client.blocking import BlockingCalls
from holdfast.outbox.blocking import BlockingHandling, BlockingInbox, BlockingOutbox
from holdfast.outbox.handling import RequestClaim
from holdfast.resilience.breaker.transitions import Permit
from holdfast.resilience.service import RetryService

_log = logging.getLogger("holdfast.celery")


class NotConnected(HoldfastError, RuntimeError):
    """A reliable task was used and its Celery app has no engine: call `connect` first."""

    code = ErrorCode.INVALID_STATE


class TaskEngine(Protocol):
    """What tasks need of `Engine(...).blocking()`."""

    outbox: BlockingOutbox
    inbox: BlockingInbox
    handling: BlockingHandling
    calls: BlockingCalls

    def open(self) -> object:
        """Open the store."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class EngineSource(Protocol):
    """What `connect` takes: `holdfast.Engine` is one."""

    def blocking(self) -> Any:
        """Return the engine for code that is not async, a `TaskEngine`."""
        ...


class ProcessEngine:
    """Opens one engine per process: one from before a fork is not used after it.

    Attributes:
        clock: by which deliveries wait.
        rng: spreads their delays; each process has its own, or all children of a worker would
            come back at the same moment.
        service: repeats statements while the store does not answer.
    """

    def __init__(self, make: Callable[[], EngineSource], clock: Clock = SYSTEM_CLOCK) -> None:
        self._make = make
        self.clock = clock
        self._inherited: list[TaskEngine] = []
        self._start_anew()
        _ALL.add(self)

    def _start_anew(self) -> None:
        self._engine: TaskEngine | None = None
        self._declared: set[str] = set()
        self._lock = threading.Lock()
        self._leases = LeaseKeeper(self)
        self.rng = Random()
        self.service = RetryService(clock=self.clock, rng=self.rng)

    def after_fork(self) -> None:
        """Forget the parent's engine, but keep it referenced: its end would disturb the parent."""
        if self._engine is not None:
            self._inherited.append(self._engine)
        self._start_anew()

    def get(self) -> TaskEngine:
        """Return the engine of this process; open it where it is not open.

        Raises:
            StoreError: the store cannot be opened.
        """
        engine = self._engine
        if engine is None:
            with self._lock:
                engine = self._engine
                if engine is None:
                    opened: TaskEngine = self._make().blocking()
                    opened.open()
                    self._engine = engine = opened
        return engine

    def close(self) -> None:
        """Close the engine of this process, if it is open."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def once(self, name: str, work: Callable[[], object]) -> None:
        """Call `work` unless that was done under this `name` in this process."""
        if name not in self._declared:
            work()
            self._declared.add(name)

    @contextmanager
    def leased(self, claim: RequestClaim, seconds: float) -> Iterator[None]:
        """Extend the lease of `claim`, which lasts for `seconds`, while the block runs."""
        self._leases.add(claim, seconds)
        try:
            yield
        finally:
            self._leases.remove(claim)

    def keep_trial(self, claim: RequestClaim, downstream: str, permit: Permit) -> None:
        """Extend the trial under `permit` with the lease of `claim`."""
        if permit.trial is not None:
            self._leases.keep_trial(claim, downstream, permit)


class LeaseKeeper:
    """Extends the leases and trials of the deliveries that run in this process, in a thread."""

    def __init__(self, engine: ProcessEngine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._running: dict[RequestClaim, float] = {}
        self._trials: dict[RequestClaim, tuple[str, Permit]] = {}
        self._interval = 0.0
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, claim: RequestClaim, seconds: float) -> None:
        """Extend `claim` from now on, in thirds of `seconds`."""
        with self._lock:
            self._running[claim] = seconds
            if self._interval and self._interval <= seconds / 3:
                return
            self._interval = seconds / 3
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="holdfast-leases", daemon=True
                )
                self._thread.start()
        self._woken.set()  # the interval is shorter now

    def keep_trial(self, claim: RequestClaim, downstream: str, permit: Permit) -> None:
        """Extend the trial under `permit` as well, for as long as `claim`."""
        with self._lock:
            self._trials[claim] = downstream, permit

    def remove(self, claim: RequestClaim) -> None:
        """Stop extending `claim`."""
        with self._lock:
            self._running.pop(claim, None)
            self._trials.pop(claim, None)

    def _run(self) -> None:
        while True:
            if self._woken.wait(self._interval):
                self._woken.clear()
            else:
                self._extend()

    def _extend(self) -> None:
        with self._lock:
            running, trials = dict(self._running), dict(self._trials)
        if not running:
            return  # the engine may be closed by now, and would be opened again
        try:
            engine = self._engine.get()
            for seconds in set(running.values()):
                claims = [claim for claim, lease in running.items() if lease == seconds]
                engine.handling.extend(claims, seconds)
            for claim, (downstream, permit) in trials.items():
                engine.calls.extend(downstream, permit, running[claim])
        except Exception as error:
            # The next turn may succeed. Past the lease another delivery may take over, and the
            # inbox still lets only one of them have an effect.
            _log.warning("the leases of %d tasks were not extended: %s", len(running), error)


_ALL: "WeakSet[ProcessEngine]" = WeakSet()
_OF_APP: "WeakKeyDictionary[Celery, ProcessEngine]" = WeakKeyDictionary()


def connect(app: Celery, engine: Callable[[], EngineSource]) -> ProcessEngine:
    """Let the reliable tasks of `app` keep their state in an engine of each process.

    Args:
        engine: makes the engine, such as `lambda: Engine(DATABASE_URL)`; called once in each
            process, when its first task starts or is sent.
    """
    _OF_APP[app] = found = ProcessEngine(engine)
    return found


def process_engine_of(app: Celery) -> ProcessEngine:
    """Return the engine that `app` is connected to.

    Raises:
        NotConnected: it is connected to none.
    """
    found = _OF_APP.get(app)
    if found is None:
        raise NotConnected(
            f"the Celery app {app.main!r} has no engine: call "
            "holdfast.messaging.celery.connect(app, lambda: Engine(...)) where it is created"
        )
    return found


def _after_fork() -> None:
    for each in tuple(_ALL):
        each.after_fork()


def _close_all(**_: Any) -> None:
    for each in tuple(_ALL):
        each.close()


os.register_at_fork(after_in_child=_after_fork)
signals.worker_process_shutdown.connect(_close_all, weak=False)
signals.worker_shutdown.connect(_close_all, weak=False)
