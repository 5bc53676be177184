"""Durable jobs on SQLite beside Huey: every commit reaches the disk, on both sides."""

import logging
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from huey import SqliteHuey

from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized
from benchmarks.ours import OURS, added_and_drained

HUEY = {1: "Huey (SQLite, fsync, 1 thread)", 2: "Huey (SQLite, fsync, 2 threads)"}
"""One thread is its default and mostly its best here: two contend for the file's lock."""
CONCURRENCY = 500
"""Our best here: as many as one tick takes, so that the fewest commits are waited for."""
WANTED = 15_000


def _ours(jobs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return added_and_drained(f"sqlite:///{folder}/ours.db", jobs, CONCURRENCY)[1]


def _huey(jobs: int, workers: int) -> float:
    """Drain with one consumer of `workers` threads, in this process as ours is.

    Its worker processes are slower still. Results are not stored and an empty queue is asked again
    after a millisecond: both are to Huey's advantage. It keeps no attempts and no events.
    """
    with tempfile.TemporaryDirectory() as folder:
        huey = SqliteHuey("bench", filename=str(Path(folder) / "h.db"), fsync=True, results=False)
        done = threading.Semaphore(0)

        @huey.task()
        def nothing() -> None:
            done.release()

        for _ in range(jobs):
            nothing()
        consumer = huey.create_consumer(
            workers=workers, periodic=False, initial_delay=0.001, backoff=1.0
        )
        begin = time.perf_counter()
        consumer.start()
        for _ in range(jobs):
            done.acquire()
        seconds = time.perf_counter() - begin
        consumer.stop(graceful=True)
        huey.storage.close()
    return jobs / seconds


def drain() -> Row:
    """Measure how fast waiting no-op jobs are worked off."""
    # Short turns and many of them: each side meets the machine at its quietest.
    ours, huey = sized(2_000, 10_000), sized(300, 1_000)
    contenders: dict[str, Callable[[], float]] = {OURS: lambda: _ours(ours)}
    for workers, name in HUEY.items():
        contenders[name] = partial(_huey, huey, workers)
    rates = best_rates(contenders, rounds=sized(2, 12))
    reached = "reached" if rates[OURS] >= WANTED else "not reached"
    return Row(
        "SQLite, fsync full: drain no-op jobs, attempts and events recorded",
        ratios=rate_ratios(rates, OURS),
        goals=[Goal(name, 10) for name in HUEY.values()],
        note=f"{WANTED} jobs a second {reached} in this run: {rates[OURS]:.0f}",
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    logging.disable(logging.CRITICAL)  # Huey logs every job to the terminal
    try:
        return [drain()]
    finally:
        logging.disable(logging.NOTSET)
