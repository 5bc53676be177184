"""End the process of a worker in time, whatever its handlers do.

Python cannot end a thread, nor a task that swallows its cancellation, and an interpreter waits for
both when it exits. So a process that was asked to stop and has not ended when its time is over is
ended without them. Only C code that keeps the global interpreter lock prevents that: no thread of
Python runs meanwhile.
"""

import asyncio
import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, NoReturn, Self

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")

HANDLERS_LEFT = 3
"""Exit code: code of handlers was still running. All jobs were reported or released before."""
JOBS_LEFT = 4
"""Exit code: running jobs could not be released. They run again when the process is seen to be
dead, at the latest when their leases have expired."""
GRACE = 5.0
"""Seconds after the shutdown limit in which the last reports are written and the store closed."""
_LAST_LINE = 0.5
"""Seconds, the last of the time, in which the last line of the log must be written."""


class ForcedExit:
    """End the process `seconds` after `begin`, unless it has ended by then.

    A thread waits from the start: nothing can be started safely in a signal handler, and the main
    thread may be blocked when the signal arrives.

    Attributes:
        code: the exit code; `JOBS_LEFT` until all jobs were reported or released.
    """

    def __init__(self, seconds: float) -> None:
        self.code = JOBS_LEFT
        self._seconds = seconds
        self._asked = False
        self._messages: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        threading.Thread(target=self._wait, name="holdfast-exit", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Stop waiting, unless the process was asked to end: it may still hang at its exit."""
        if not self._asked:
            self._messages.put(False)

    def begin(self) -> None:
        """Start the clock; only the first call counts. Call it from any thread."""
        self._asked = True
        self._messages.put(True)

    def _wait(self) -> None:
        if not self._messages.get():
            return
        SYSTEM_CLOCK.sleep(max(0.0, self._seconds - _LAST_LINE))
        _end_now(self.code)


def run_worker(main: Coroutine[Any, Any, Worker | None], exits: ForcedExit) -> int:
    """Run `main`, which returns its worker at the end, and return the exit code.

    Not by `asyncio.run`, which waits for tasks that swallow their cancellation. Where handlers or
    lifespans do not stop, the process ends here.
    """
    runner = asyncio.Runner()
    try:
        worker = runner.run(main)
    except BaseException:
        runner.close()
        raise
    if worker is not None and worker.unreported:
        _end_now(JOBS_LEFT)
    exits.code = HANDLERS_LEFT
    if worker is not None and (worker.running or worker.unfinished_lifespans):
        _end_now(HANDLERS_LEFT)
    runner.close()
    return 0


def _end_now(code: int) -> NoReturn:
    try:
        # In a thread: a handler that is stuck while it writes to a full pipe holds the lock.
        last = threading.Thread(target=_write_last_line, args=(code,), daemon=True)
        last.start()
        last.join(_LAST_LINE)
    finally:
        os._exit(code)


def _write_last_line(code: int) -> None:
    if code == HANDLERS_LEFT:
        _log.error("ending while code of handlers still runs; their jobs were released")
    else:
        _log.error("ending without releasing running jobs; they run again, at the latest when "
                   "their leases have expired")  # fmt: skip
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
