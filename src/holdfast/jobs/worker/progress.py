"""Store the progress that handlers report, throttled."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.clock import Clock
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.store_port import StoreError, WorkerStore
from holdfast.jobs.worker.run import Run

_log = logging.getLogger("holdfast.worker")

_RECORDED_STEP = 0.1
"""How far the share must move before another event is recorded."""


class ProgressWriter:
    """Store the progress of running attempts, at most once every `every` seconds for each.

    The first report is written at once. An event, which the pages' streams carry, is recorded when
    the note changed or the share moved by a tenth.

    Args:
        find: returns the run of a context while its progress may still be stored.
        on_refused: called with a run whose progress was refused: its lease is lost.
    """

    def __init__(
        self,
        store: WorkerStore,
        *,
        clock: Clock,
        every: float = 0.5,
        find: Callable[[JobContext], Run | None],
        on_refused: Callable[[Run], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._every = every
        self._find = find
        self._on_refused = on_refused
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._written: dict[JobContext, tuple[float, float | None, str | None]] = {}

    def open(self) -> None:
        """Begin, on the running event loop."""
        self._loop = asyncio.get_running_loop()

    def progress_noted(self, context: JobContext) -> None:
        """Schedule a write for a context that has progress to store. Call it from any thread."""
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._begin, context)
        except RuntimeError:
            # The loop is closed; the worker has ended.
            return

    def forget(self, context: JobContext) -> None:
        """Drop the state of an attempt that ended."""
        if self._written:
            self._written.pop(context, None)

    async def close(self) -> None:
        """Stop writing."""
        self._loop = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._written.clear()

    def _begin(self, context: JobContext) -> None:
        if self._loop is None:
            return
        task = self._loop.create_task(self._write(context))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, context: JobContext) -> None:
        last_at, last_share, last_note = self._written.get(context, (None, None, None))
        if last_at is not None:
            wait = last_at + self._every - self._clock.monotonic()
            if wait > 0:
                await self._clock.sleep_async(wait)
        run = self._find(context)
        taken = context.take_progress()
        if run is None or taken is None:
            return
        share, note = taken
        moved = share is not None and abs(share - (last_share or 0.0)) >= _RECORDED_STEP
        record = note != last_note or moved
        kept = (share, note) if record else (last_share, last_note)
        self._written[context] = (self._clock.monotonic(), *kept)
        try:
            accepted = await self._store.progress(run.claim.lease, share, note, record=record)
        except StoreError as error:
            # Progress is only shown to people; the next report tries again.
            _log.debug("progress of %s was not stored: %s", context.job_id, error)
            return
        except Exception:
            _log.exception("progress of %s cannot be stored", context.job_id)
            return
        if not accepted and self._find(context) is not None:
            self._on_refused(run)
        if self._find(context) is None:
            self.forget(context)
