"""A worker of short jobs: `python -m tests.faults.short_job_process URL QUEUE`.

It serves QUEUE, and the queue `default` with other such workers. All kinds that it knows may be
claimed ahead. A job whose id begins with `poison` kills it.
"""

import asyncio
import os
import signal
import sys

from tests.faults.worker_process import BRISK

from holdfast.bootstrap import open_store
from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.options import WorkerOptions
from holdfast.jobs.worker.worker import Worker
from holdfast.resilience.policy import RetryPolicy

app = App("short")
POISON = "poison"


@app.job(retry=RetryPolicy(max_attempts=3))
async def work(ctx):
    if ctx.job_id.startswith(POISON):
        os.kill(os.getpid(), signal.SIGKILL)


async def main(url, queue):
    options = WorkerOptions(queues=("default", queue), maintenance=BRISK, poll_interval=0.1)
    async with open_store(url) as store:
        await Worker(store, {kind.name: kind for kind in app.kinds}, options).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
