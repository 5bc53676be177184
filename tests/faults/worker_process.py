"""A worker as a process: `python -m tests.faults.worker_process URL OPTIONS`.

OPTIONS is a JSON object with fields of `WorkerOptions`, and `defaults` (True: the options are those
of a worker without options, except `concurrency`), `maintains` (False: it does no maintenance),
`believes` (True: its heartbeats extend nothing and report no lost lease) and `skew` (seconds by
which its clock is ahead). It prints a line when it runs, and writes refused reports and lost leases
to the ledger.
"""

import asyncio
import json
import sys

from tests.faults.jobs import app, write_line

from holdfast.bootstrap import open_store
from holdfast.clock import SystemClock
from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.job_events import LeaseLost, WriteRefused
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.store_port import Extended
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.signals import stop_on_signals
from holdfast.jobs.worker.worker import Worker

BRISK = MaintenanceOptions(
    lead_seconds=0.6, rescue_every=0.1, deadlines_every=0.1, retention_every=60, probes_every=60
)


class SkewedClock(SystemClock):
    """A clock that is `skew` seconds ahead."""

    def __init__(self, skew):
        self._skew = skew

    def wall(self):
        return super().wall() + self._skew


class BelievingHeart:
    """Heartbeats that do not use the store and report success."""

    async def extend(self, leases, lease_seconds, *, now=None):
        return Extended()

    async def register(self, worker_id): ...

    async def requests(self, worker_id):
        return WorkerRequests()

    async def close(self): ...


def tell(event):
    """Records refused reports."""
    if isinstance(event, WriteRefused | LeaseLost):
        write_line([event.job_id, event.token, type(event).__name__])


async def main(url, options):
    clock = SkewedClock(options.pop("skew", 0.0))
    believes = options.pop("believes", False)
    maintenance = BRISK if options.pop("maintains", True) else None
    if options.pop("defaults", False):
        chosen = WorkerOptions(concurrency=options["concurrency"])
    else:
        chosen = WorkerOptions(
            maintenance=maintenance, poll_interval=0.1, cleanup_seconds=0.5, **options
        )
    async with open_store(url, clock=clock) as store:
        if believes:
            store.heartbeats = lambda kinds: BelievingHeart()
        kinds = {kind.name: kind for kind in app.kinds}
        worker = Worker(store, kinds, chosen, clock=clock, listeners=[tell])
        with stop_on_signals(worker.stop):
            sys.stdout.write("running\n")
            sys.stdout.flush()
            await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
