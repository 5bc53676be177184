"""The lifespans of a worker's apps: entered before its first claim, left after its last report.

Each runs in a task of its own, from its start to its end, because a context manager may need to be
left by the task that entered it. A lifespan that hangs must not keep the worker from stopping: it
is cancelled when its time is up, and left alone if it does not end even then.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.clock import Clock
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.app_hooks import Lifespan
from holdfast.jobs.exceptions import ContextError, LifespanFailed
from holdfast.jobs.worker.wakeups import WakeEvent

_log = logging.getLogger("holdfast.worker")

_LEAST = 1.0
"""Seconds that lifespans have to end, though the time for that has passed."""
_AFTER_CANCEL = 0.5
"""Seconds that a cancelled lifespan has to end."""


class _Running:
    """One lifespan in its task."""

    def __init__(self, app: App, lifespan: Lifespan) -> None:
        self.app = app
        self.state: Any = None
        self._lifespan = lifespan
        self._leave = asyncio.Event()
        self._was_cancelled = False
        self.entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(), name=f"lifespan of {app.name}")

    async def _run(self) -> None:
        try:
            async with self._lifespan(self.app) as self.state:
                self.entered.set_result(None)
                await self._leave.wait()
        except BaseException as error:
            if self._was_cancelled and isinstance(error, asyncio.CancelledError):
                self.entered.cancel()
                return
            name, is_start = self.app.name, not self.entered.done()
            when = "start" if is_start else "end"
            _log.error("the lifespan of app %s failed at its %s", name, when, exc_info=error)
            if is_start:
                failed = LifespanFailed(name, error)
                failed.__cause__ = error
                self.entered.set_exception(failed)

    def leave(self) -> None:
        self._leave.set()

    def cancel(self) -> None:
        self._was_cancelled = True
        self.task.cancel()


class Lifespans:
    """Enter and leave the lifespans of `apps`, those that have one, within `seconds`."""

    def __init__(self, apps: Iterable[App], clock: Clock, seconds: float) -> None:
        self._apps = tuple(apps)
        self._clock = clock
        self._seconds = seconds
        self._running: dict[str, _Running] = {}

    @property
    def unfinished(self) -> int:
        """How many did not end in time when they were left."""
        return sum(not each.task.done() for each in self._running.values())

    def state_of(self, app: str) -> Any:
        """Return what the lifespan of the app called `app` has yielded.

        Raises:
            ContextError: it has none.
        """
        running = self._running.get(app)
        if running is None:
            raise ContextError(
                f"app {app} has no lifespan, so there is no ctx.state: declare it as "
                f"App({app!r}, lifespan=...) and give the app to the Engine"
            )
        return running.state

    async def enter(self, stopping: Callable[[], bool], wake: WakeEvent) -> bool:
        """Enter one after the other; False if `stopping` became true, which `wake` signals.

        Raises:
            LifespanFailed: one has raised.
        """
        for app in self._apps:
            if app.lifespan is None:
                continue
            if stopping():
                return False
            running = self._running[app.name] = _Running(app, app.lifespan)
            running.entered.add_done_callback(lambda _: wake.set())
            while not running.entered.done() and not stopping():
                await wake.wait_and_clear(None)
            if not running.entered.done():
                running.cancel()
                return False
            running.entered.result()
        return True

    async def leave(self, ends_at: float | None = None, *, hurry: bool = False) -> None:
        """Leave all at once; cancel and log those that have not ended in time.

        They have time until `ends_at` on the monotonic clock, if the worker's time to stop runs
        already, but at least a second; with `hurry` only that.
        """
        tasks = {running.task for running in self._running.values()}
        if not tasks:
            return
        left = self._seconds if ends_at is None else ends_at - self._clock.monotonic()
        seconds = max(0.0 if hurry else left, _LEAST)
        for running in self._running.values():
            running.leave()
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for running in self._running.values():
            if running.task in late:
                running.cancel()
        if late:
            await asyncio.wait(late, timeout=_AFTER_CANCEL)
        for name, running in self._running.items():
            if running.task in late:
                ended = "was cancelled" if running.task.done() else "does not end and is left alone"
                _log.error(
                    "the lifespan of app %s took more than %.1f s to end; it %s",
                    name, seconds, ended,
                )  # fmt: skip
