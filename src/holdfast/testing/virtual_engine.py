"""An engine on a virtual clock: retries, delays, leases, deadlines and slots pass in no time.

Time stands still while jobs run and moves in two ways only: a handler waits for the clock or for a
timer of its event loop, or `run_until_idle` and `advance` go on to the next moment at which
something is due. So a run with the same seed is the same run.
"""

import asyncio
import math
import secrets
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from holdfast.events import Listener
from holdfast.jobs.client.blocking import mirror
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.job_request import JobId
from holdfast.jobs.engine import BlockingStoreEngine, StoreEngine
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.maintenance.leader import Maintenance
from holdfast.jobs.model import Job
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.worker import Worker
from holdfast.resilience import checks
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.testing.inline_store import InlineStore
from holdfast.testing.randomness import seeded_rng
from holdfast.testing.virtual_clock import VirtualClock
from holdfast.testing.virtual_worker import VirtualWorker

__all__ = ["BlockingVirtualEngine", "EngineStuck", "VirtualEngine", "virtual_engine"]

T = TypeVar("T")

# One attempt at a time, so that their order, and with it the jitter of each, is always the same.
# With the intervals of production an attempt of some hours would be thousands of steps. A new job
# wakes a worker at once and the store says when the next one is due, so nothing runs later.
_OPTIONS = WorkerOptions(
    concurrency=1,
    poll_interval=3600.0,
    maintenance=MaintenanceOptions(
        lead_seconds=600.0, compete_every=60.0, rescue_every=60.0, retention_every=600.0
    ),
)

_SHORTEST_STEP = 1e-6
"""Seconds that each step takes at least: the time of day has no finer digits."""


class EngineStuck(RuntimeError):
    """A call did not end within its real seconds. The message says what was still running."""


def virtual_engine(
    apps: Iterable[App],
    *,
    clock: VirtualClock | None = None,
    seed: int = 0,
    listeners: Sequence[Listener] = (),
    options: WorkerOptions | None = None,
    real_seconds: float = 30.0,
) -> "VirtualEngine":
    """Return an engine on virtual time, with a SQLite file of its own that is deleted at the end.

        with virtual_engine([app]).blocking() as engine:
            job = engine.enqueue(send, 7)
            engine.run_until_idle()

    `async with` opens it too, on the event loop of its clock: `clock.run(test())`.

    Args:
        apps: the apps that declare the job kinds.
        clock: its time; a new `VirtualClock` by default.
        seed: for jitter; the same seed gives the same run.
        listeners: receive the workers' events.
        options: of its workers. By default one attempt runs at a time; with more, the order in
            which handlers that are not async end may differ between two runs.
        real_seconds: most real seconds for one call of `run_until_idle` or `advance`.
    """
    checks.number("real_seconds", real_seconds, above=0)
    return VirtualEngine(
        apps,
        clock=clock or VirtualClock(io_grace=0.05),
        seed=seed,
        listeners=listeners,
        options=options or _OPTIONS,
        real_seconds=real_seconds,
    )


class VirtualEngine(StoreEngine):
    """An engine on virtual time; see `virtual_engine`.

    Attributes:
        clock: its `VirtualClock`.
    """

    clock: VirtualClock
    store: InlineStore

    def __init__(
        self,
        apps: Iterable[App],
        *,
        clock: VirtualClock,
        seed: int,
        listeners: Sequence[Listener],
        options: WorkerOptions,
        real_seconds: float,
    ) -> None:
        folder = Path(tempfile.gettempdir()) / f"holdfast-test-{secrets.token_hex(8)}"
        store = InlineStore(folder / "work.db", clock=clock)
        super().__init__(store, apps, clock=clock, listeners=listeners, transactional=store)
        self._rng = seeded_rng(seed)
        self._options = options
        self._real_seconds = real_seconds
        self._maintenance = Maintenance(
            store,
            self.kinds,
            options.maintenance or MaintenanceOptions(),
            holder="test",
            clock=clock,
            rng=self._rng,
            outage=Outage("test", clock, self._listeners),
            listeners=self._listeners,
        )

    @property
    def path(self) -> Path:
        """The database file, for a connection of the test's own; apsw opens it."""
        return self.store.path

    async def __aenter__(self) -> Self:
        """Open the store.

        Raises:
            RuntimeError: this is not an event loop of its clock.
        """
        if not self.clock.owns(asyncio.get_running_loop()):
            raise RuntimeError(
                "a virtual engine needs the event loop of its clock: run the test with "
                "clock.run(...) and pass clock= to virtual_engine, or use "
                "`with virtual_engine(...).blocking() as engine:`"
            )
        self.path.parent.mkdir(mode=0o700)
        try:
            return await super().__aenter__()
        except BaseException:
            shutil.rmtree(self.path.parent)
            raise

    async def __aexit__(self, *_: object) -> None:
        """Close the store and delete its file."""
        try:
            await super().__aexit__()
        finally:
            shutil.rmtree(self.path.parent)

    def blocking(self) -> "BlockingVirtualEngine":
        """Return this engine for tests that are not async, on an event loop in its own thread."""
        return BlockingVirtualEngine(self)

    async def run_until_idle(self) -> None:
        """Run all jobs until none is due any more, however far in the future.

        Retries, delays, `run_at`, open breakers, deadlines and leases are waited for, in virtual
        time; slots of periodic jobs are not, but those that pass meanwhile are run. Jobs that only
        a person can start, such as those of a held downstream, stay.

        Raises:
            EngineStuck: it takes more than `real_seconds`.
        """
        await self._limited(self._run_until(math.inf))

    async def advance(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass, and run everything that is due meanwhile.

        It ends later if jobs take longer.

        Raises:
            EngineStuck: it takes more than `real_seconds`.
        """
        checks.number("seconds", seconds, at_least=0)
        await self._limited(self._run_until(self.clock.wall() + seconds))

    async def _run_until(self, end: float) -> None:
        """Run what is due now and at each moment until `end`, in epoch seconds."""
        while True:
            await self._run_due()
            now = self.clock.wall()
            moments = await self._next_moments(now)
            if moments or end < math.inf:
                moments += self._next_slots(now)
            moment = min(moments, default=math.inf)
            if moment == math.inf or moment > end:
                break
            self.clock.advance(max(moment - now, _SHORTEST_STEP))
        if now < end < math.inf:
            self.clock.advance(end - now)
            await self._run_due()

    async def _run_due(self) -> None:
        """Run jobs and maintenance until neither finds anything to do now."""
        await self.work(until_idle=True, options=self._options)
        while await self._maintenance.run_once():
            await self.work(until_idle=True, options=self._options)

    async def _next_moments(self, now: float) -> list[float]:
        """Return future moments at which something is due, in epoch seconds."""
        moments = [moment for moment in await self.store.next_moments() if moment > now]
        if moments:
            moments += await self._next_probes(now)
        return moments

    def _next_slots(self, now: float) -> list[float]:
        """Return the next slots of periodic jobs, in epoch seconds."""
        periodic = [kind.periodic for kind in self.kinds.values() if kind.periodic is not None]
        slots = (each.schedule.next_after(now) for each in periodic)
        return [slot for slot in slots if slot is not None]

    async def _next_probes(self, now: float) -> list[float]:
        every = [
            known.probe_every
            for known in self.registry.downstreams().values()
            if known.probe is not None
        ]
        if not every:
            return []
        states = (await self.downstreams.states()).values()
        return [now + min(every)] if CircuitState.OPEN in states else []

    async def wait(self, job: JobId, timeout: float | None = None) -> Job:
        """Return the job once it is finished; a worker must be running, for instance in a task.

        Raises:
            EngineStuck: it takes more than `real_seconds`.
        """
        return await self._limited(super().wait(job, timeout))

    async def _limited(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns; give up after `real_seconds`."""
        loop, stuck = asyncio.get_running_loop(), list[str]()
        task = loop.create_task(work)

        def give_up() -> None:
            running = [worker for worker in self._workers if isinstance(worker, VirtualWorker)]
            stuck.extend(line for worker in running for line in worker.describe_running())
            stuck.extend([] if stuck else ["no job, or one after the other without an end"])
            for worker in running:
                worker.let_time_pass()
            task.cancel()

        timer = threading.Timer(self._real_seconds, lambda: loop.call_soon_threadsafe(give_up))
        timer.daemon = True
        timer.start()
        try:
            return await task
        except asyncio.CancelledError:
            if not stuck:
                raise
            raise EngineStuck(
                f"after {self._real_seconds:g} real seconds there was still running: "
                f"{'; '.join(stuck)}"
            ) from None
        finally:
            timer.cancel()

    def _worker_type(self) -> type[Worker]:
        return VirtualWorker


class BlockingVirtualEngine(BlockingStoreEngine):
    """An engine on virtual time whose methods block; see `virtual_engine`."""

    def __init__(self, engine: VirtualEngine) -> None:
        super().__init__(engine, engine.clock.loop_factory)
        self.clock = engine.clock
        self.path = engine.path

    run_until_idle = mirror(VirtualEngine.run_until_idle)
    advance = mirror(VirtualEngine.advance)
