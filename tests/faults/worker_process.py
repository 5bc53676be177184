"""A worker as a process: `python -m tests.faults.worker_process URL OPTIONS`.

OPTIONS is a JSON object of `WorkerOptions`. The first line it prints says that it runs.
"""

import asyncio
import json
import sys

from tests.faults.jobs import app

from holdfast.bootstrap import open_store
from holdfast.jobs.options import MaintenanceOptions, WorkerOptions
from holdfast.jobs.signals import stop_on_signals
from holdfast.jobs.worker import Worker

BRISK = MaintenanceOptions(
    lead_seconds=0.6, rescue_every=0.1, deadlines_every=0.1, retention_every=60, probes_every=60
)


async def main(url, options):
    chosen = WorkerOptions(maintenance=BRISK, poll_interval=0.1, cleanup_seconds=0.5, **options)
    async with open_store(url) as store:
        worker = Worker(store, {kind.name: kind for kind in app.kinds}, chosen)
        with stop_on_signals(worker.stop):
            sys.stdout.write("running\n")
            sys.stdout.flush()
            await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
