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
        self._task: asyncio.Task[None] | None = None
        self._work: asyncio.Task[Requeued] | None = None

    async def begin(
        self, action: RunAction, where: JobFilter, *, rate: float | None, who: str
    ) -> DeadLetterRun:
        """Count what `where` selects and begin to work on it, at most `rate` jobs a second.

        Raises:
            ApiError: another run is under way.
        """
        now = await self._store.ping()
        chosen = {name: value for name, value in asdict(where).items() if value}
        total = await self._letters.count(where)
        (run_id,) = new_ids(1, now)
        run = DeadLetterRun(run_id, action, chosen, who, rate, total, now, updated_at=now)
        if not await self._store.begin_run(run, stale_after=STALE_AFTER):
            raise ApiError(ErrorCode.INVALID_STATE, "Another run is under way.")
        self._task = asyncio.create_task(self._follow(run, where))
        return run

    async def stop(self) -> None:
        """End the run where it is, whichever server works on it; what it has done stays so."""
        if await self._store.request_run_stop() and self._work is not None:
            self._work.cancel()

    async def list(self, limit: int = 20) -> tuple[DeadLetterRun, ...]:
        """Return runs, the one that began last first; one whose server has died is failed."""
        found, now = await self._store.runs(limit=limit), await self._store.ping()
        return tuple(_as_of(run, now) for run in found)

    async def close(self) -> None:
        """Stop the run of this server, and wait until that is stored."""
        if self._work is not None and self._task is not None:
            self._work.cancel()
            await asyncio.wait({self._task}, timeout=_UPDATE_EVERY)

    async def _follow(self, run: DeadLetterRun, where: JobFilter) -> None:
        """Work on `run`, and write how far it is until it has ended."""
        so_far = run

        def note(done: Requeued) -> None:
            nonlocal so_far
            so_far = replace(run, matched=done.matched, done=done.requeued, skipped=done.skipped)

        act = self._letters.requeue
        if run.action is RunAction.DISCARD:
            act = self._letters.discard_all
        work = self._work = asyncio.create_task(act(where, rate=run.rate, progress=note))
        while not work.done():
            await asyncio.wait({work}, timeout=_UPDATE_EVERY)
            if not work.done() and not await self._wrote(so_far):
                work.cancel()
        self._work = None
        await self._wrote(replace(so_far, state=_state_of(work)))

    async def _wrote(self, run: DeadLetterRun) -> bool:
        """Store how far a run is; False if it should end."""
        try:
            return await self._store.update_run(run)
        except StoreError as error:
            # The run goes on or fails by itself; a state that is not written becomes stale.
            _log.warning("the state of run %s was not stored: %s", run.id, error)
            return True


def _state_of(work: "asyncio.Task[Requeued]") -> RunState:
    if work.cancelled():
        return RunState.STOPPED
    error = work.exception()
    if error is None:
        return RunState.FINISHED
    _log.error("a run over dead letters has failed", exc_info=error)
    return RunState.FAILED


def _as_of(run: DeadLetterRun, now: float) -> DeadLetterRun:
    stale = run.state is RunState.RUNNING and now - run.updated_at > STALE_AFTER
    return replace(run, state=RunState.FAILED) if stale else run
