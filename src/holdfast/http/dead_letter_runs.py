"""Runs over dead letters in the background of a server; their state is in the store.

A run that was interrupted is not resumed by itself. Beginning the same one again goes on: what was
requeued or discarded is no dead letter any more.
"""

import asyncio
import logging
from dataclasses import asdict, replace

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError
from holdfast.ids import new_ids
from holdfast.jobs.client.dead_letters import Requeued
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.operations_port import DeadLetterRun, RunAction, RunState
from holdfast.jobs.store_port import StoreError
from holdfast.jobs.views import JobFilter

_log = logging.getLogger("holdfast.http")
_UPDATE_EVERY = 1.0
"""Seconds between two writes of a run's state."""
STALE_AFTER = 30.0
"""Seconds without such a write after which the server that worked on a run counts as dead."""


class DeadLetterRuns:
    """Begin, follow and stop runs: one at a time for all servers of a database."""

    def __init__(self, engine: StoreEngine) -> None:
        self._store = engine.store
        self._letters = engine.dead_letters
        self._clock = engine.clock
        # Usually one. A run that was given up, since its store was away, may end beside a new one.
        self._stops: dict[asyncio.Task[None], asyncio.Event] = {}

    async def begin(
        self, action: RunAction, where: JobFilter, *, rate: float | None, who: str
    ) -> DeadLetterRun:
        """Count what `where` selects and begin to work on it, at most `rate` jobs a second.

        Raises:
            ApiError: another run is under way.
        """
        chosen = {name: value for name, value in asdict(where).items() if value}
        total = await self._letters.count(where)
        # Read after the count: that may take longer than a run may go without a sign of life.
        now = await self._store.ping()
        (run_id,) = new_ids(1, now)
        run = DeadLetterRun(run_id, action, chosen, who, rate, total, now, updated_at=now)
        if not await self._store.begin_run(run, stale_after=STALE_AFTER):
            raise ApiError(ErrorCode.INVALID_STATE, "Another run is under way.")
        stop = asyncio.Event()
        task = asyncio.create_task(self._follow(run, where, stop), name=run.id)
        self._stops[task] = stop
        task.add_done_callback(self._stops.pop)
        return run

    async def wait(self, run: DeadLetterRun, seconds: float) -> DeadLetterRun:
        """Return how far a run of this server is as soon as it has ended, or after `seconds`."""
        working = [task for task in self._stops if task.get_name() == run.id]
        if working:
            await asyncio.wait(working, timeout=seconds)
        return next((each for each in await self.list() if each.id == run.id), run)

    async def stop(self) -> None:
        """End the run where it is, whichever server works on it; what it has done stays so."""
        if await self._store.request_run_stop():
            self._stop_all()

    async def list(self, limit: int = 20) -> tuple[DeadLetterRun, ...]:
        """Return runs, the one that began last first; one whose server has died is failed."""
        found, now = await self._store.runs(limit=limit), await self._store.ping()
        return tuple(_as_of(run, now) for run in found)

    async def close(self) -> None:
        """Stop the run of this server, and wait until that is stored."""
        self._stop_all()
        if self._stops:
            _, late = await asyncio.wait(set(self._stops), timeout=_UPDATE_EVERY)
            for task in late:
                task.cancel()

    def _stop_all(self) -> None:
        for stop in self._stops.values():
            stop.set()

    async def _follow(self, run: DeadLetterRun, where: JobFilter, stop: asyncio.Event) -> None:
        """Work on `run`, and write how far it is until it has ended."""
        so_far = run

        def note(done: Requeued) -> None:
            nonlocal so_far
            so_far = replace(run, matched=done.matched, done=done.requeued, skipped=done.skipped)

        act = self._letters.requeue
        if run.action is RunAction.DISCARD:
            act = self._letters.discard_all
        work = asyncio.create_task(act(where, rate=run.rate, progress=note, stop=stop))
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=_UPDATE_EVERY)
                if not work.done() and not await self._wrote(so_far):
                    stop.set()
        except Exception:
            _log.exception("run %s cannot be followed, so it ends", run.id)
        finally:
            # Work that is no longer followed could not be stopped.
            work.cancel()
        await asyncio.wait({work})
        await self._write_end(replace(so_far, state=_state_of(work, stop)))

    async def _wrote(self, run: DeadLetterRun) -> bool:
        """Store how far a run is; False if it should end."""
        try:
            return await self._store.update_run(run)
        except StoreError as error:
            # The run goes on or fails by itself; a state that is not written becomes stale.
            _log.warning("the state of run %s was not stored: %s", run.id, error)
            return True

    async def _write_end(self, run: DeadLetterRun) -> None:
        """Store how a run has ended, in two attempts; without that it counts as failed."""
        try:
            await self._store.update_run(run)
        except StoreError as error:
            _log.warning("the end of run %s was not stored: %s", run.id, error)
            await self._clock.sleep_async(_UPDATE_EVERY)
            await self._wrote(run)


def _state_of(work: "asyncio.Task[Requeued]", stop: asyncio.Event) -> RunState:
    if work.cancelled():
        return RunState.FAILED
    error = work.exception()
    if error is not None:
        _log.error("a run over dead letters has failed", exc_info=error)
        return RunState.FAILED
    return RunState.STOPPED if stop.is_set() else RunState.FINISHED


def _as_of(run: DeadLetterRun, now: float) -> DeadLetterRun:
    stale = run.state is RunState.RUNNING and now - run.updated_at > STALE_AFTER
    return replace(run, state=RunState.FAILED) if stale else run
