"""A server's run over all dead letters: `python -m campaigns.requeue_process URL RATE`.

It goes on until it is killed.
"""

import asyncio
import sys

from holdfast.bootstrap import Engine
from holdfast.http.dead_letter_runs import DeadLetterRuns
from holdfast.jobs.operations_port import RunAction
from holdfast.jobs.views import EVERY_JOB


async def main(url: str, rate: float) -> None:
    """Begin the run, and work on it."""
    async with Engine(url) as engine:
        runs = DeadLetterRuns(engine)
        await runs.begin(RunAction.REQUEUE, EVERY_JOB, rate=rate, who="ann")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
