"""Durable jobs on SQLite, compared with Huey: both sync every commit to disk."""

import logging
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from huey import SqliteHuey

from benchmarks.holdfast_queue import OURS, added_and_drained
from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized

HUEY = {1: "Huey (SQLite, fsync, 1 thread)", 2: "Huey (SQLite, fsync, 2 threads)"}
"""One thread is the default and usually the fastest here: two compete for the file lock."""
CONCURRENCY = 500
"""The fastest setting here: one full claim per tick, so there are the fewest commits."""
WANTED = 15_000


def _ours(jobs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return added_and_drained(f"sqlite:///{folder}/ours.db", jobs, CONCURRENCY)[1]


def huey_drain(jobs: int, workers: int) -> float:
    """Drain with one consumer of `workers` threads, in this process.

    Huey's worker processes are slower. Results are not stored, and an empty queue is polled every
    millisecond; both favour Huey. It records no attempts and no events.
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
    """Measure how fast waiting no-op jobs are run."""
    # Many short turns, so that each side gets a turn while the machine is otherwise idle.
    ours, huey = sized(2_000, 10_000), sized(300, 1_000)
    contenders: dict[str, Callable[[], float]] = {OURS: lambda: _ours(ours)}
    for workers, name in HUEY.items():
        contenders[name] = partial(huey_drain, huey, workers)
    rates = best_rates(contenders, rounds=sized(2, 12))
    reached = "reached" if rates[OURS] >= WANTED else "not reached"
    return Row(
        "SQLite, fsync full: drain no-op jobs, attempts and events recorded",
        ratios=rate_ratios(rates, OURS),
        goals=[Goal(name, 10) for name in HUEY.values()],
        note=f"{WANTED} jobs per second {reached} in this run: {rates[OURS]:.0f}",
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    logging.disable(logging.CRITICAL)  # Huey logs every job to the terminal
    try:
        return [drain()]
    finally:
        logging.disable(logging.NOTSET)
