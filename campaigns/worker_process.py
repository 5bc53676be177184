"""A worker as a process: `python -m campaigns.worker_process URL OPTIONS`.

OPTIONS is a JSON object with fields of `WorkerOptions`, and `app` (the app whose jobs it runs, as
`module:name`), `skew` (seconds by which this process's clock is ahead) and `slow_extend` (delay of
heartbeats in seconds). It waits for a store that does not answer, and ends when its standard input
is closed.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, cast

from campaigns import jobs
from campaigns.ledger import end_with_parent
from campaigns.recording_store import RecordingStore
from holdfast.bootstrap import load_reference, open_store
from holdfast.clock import SystemClock
from holdfast.jobs.declare.app import App
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.store_port import Store, StoreUnavailable
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.signals import stop_on_signals
from holdfast.jobs.worker.worker import Worker

_FREQUENT = MaintenanceOptions(
    lead_seconds=1.5, rescue_every=0.3, deadlines_every=1, retention_every=60, probes_every=60
)


class SkewedClock(SystemClock):
    """A clock that is `skew` seconds ahead."""

    def __init__(self, skew: float) -> None:
        self._skew = skew

    def wall(self) -> float:
        """Return the shifted time of day, in epoch seconds."""
        return super().wall() + self._skew


async def main(url: str, options: Mapping[str, Any]) -> None:
    """Run the worker until a signal stops it."""
    rest = dict(options)
    clock = SkewedClock(rest.pop("skew", 0.0))
    slow_extend = rest.pop("slow_extend", 0.0)
    app = load_reference(rest.pop("app", "campaigns.jobs:app"))
    assert isinstance(app, App)
    crash = jobs.crash_point()
    chosen = WorkerOptions(
        maintenance=_FREQUENT, poll_interval=0.2, cleanup_seconds=0.5, shutdown_seconds=5.0, **rest
    )
    async with AsyncExitStack() as stack:
        store = await _opened(open_store(url, clock=clock), stack)
        recording = RecordingStore(store, jobs.ledger(), crash, slow_extend)
        kinds = {kind.name: kind for kind in app.kinds}
        worker = Worker(cast(Store, recording), kinds, chosen, clock=clock)
        with stop_on_signals(worker.stop):
            sys.stdout.write("running\n")
            sys.stdout.flush()
            await worker.run()


async def _opened(store: Store, stack: AsyncExitStack) -> Store:
    while True:
        try:
            return await stack.enter_async_context(store)
        except StoreUnavailable:
            await asyncio.sleep(0.3)


if __name__ == "__main__":
    end_with_parent()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
