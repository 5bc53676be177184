"""A worker as a process: `python -m tests.faults.worker_process URL OPTIONS`.

OPTIONS is a JSON object of `WorkerOptions`, and beside them `maintains` (False: it leaves the
chores to others), `believes` (True: its heartbeats extend nothing and hear of no loss) and `skew`
(seconds that its clock is ahead). The first line it prints says that it runs; what the store
refuses it, and leases it loses, it writes to the ledger.
"""

import asyncio
import json
import sys

from tests.faults.jobs import app, write_line

from holdfast.bootstrap import open_store
from holdfast.clock import SystemClock
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
    """A machine's clock that is `skew` seconds ahead."""

    def __init__(self, skew):
        self._skew = skew

    def wall(self):
        return super().wall() + self._skew


class BelievingHeart:
    """Heartbeats that ask nobody, and think that all is well."""

    async def extend(self, leases, lease_seconds, *, now=None):
        return Extended()

    async def close(self): ...


def tell(event):
    """Write down what was refused."""
    if isinstance(event, WriteRefused | LeaseLost):
        write_line([event.job_id, event.token, type(event).__name__])


async def main(url, options):
    clock = SkewedClock(options.pop("skew", 0.0))
    believes = options.pop("believes", False)
    maintenance = BRISK if options.pop("maintains", True) else None
    chosen = WorkerOptions(
        maintenance=maintenance, poll_interval=0.1, cleanup_seconds=0.5, **options
    )
    async with open_store(url, clock=clock) as store:
        if believes:
            store.heartbeats = BelievingHeart
        kinds = {kind.name: kind for kind in app.kinds}
        worker = Worker(store, kinds, chosen, clock=clock, listeners=[tell])
        with stop_on_signals(worker.stop):
            sys.stdout.write("running\n")
            sys.stdout.flush()
            await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
