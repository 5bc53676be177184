"""Durable jobs on SQLite beside Huey: every commit reaches the disk, on both sides."""

import logging
import tempfile
import threading
import time
from pathlib import Path

from huey import SqliteHuey

from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized
from benchmarks.ours import OURS, added_and_drained

HUEY = "Huey (SQLite, fsync)"
WANTED = 15_000


def _ours(jobs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return added_and_drained(f"sqlite:///{folder}/ours.db", jobs)[1]


def _huey(jobs: int) -> float:
    """Drain with one consumer of two worker threads, as many as there are cores here.

    More threads only wait for the file's lock. Results are not stored and an empty queue is asked
    again after a millisecond: both are to Huey's advantage.
    """
    with tempfile.TemporaryDirectory() as folder:
        huey = SqliteHuey("bench", filename=str(Path(folder) / "h.db"), fsync=True, results=False)
        done = threading.Semaphore(0)

        @huey.task()
        def nothing() -> None:
            done.release()

        for _ in range(jobs):
            nothing()
        consumer = huey.create_consumer(workers=2, periodic=False, initial_delay=0.001, backoff=1.0)
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
    ours, huey = sized(2_000, 20_000), sized(300, 4_000)
    rates = best_rates({OURS: lambda: _ours(ours), HUEY: lambda: _huey(huey)}, rounds=sized(1, 3))
    reached = "reached" if rates[OURS] >= WANTED else "not reached"
    return Row(
        "SQLite, fsync full: drain no-op jobs, attempts and events recorded",
        ratios=rate_ratios(rates, OURS),
        goals=[Goal(HUEY, 10)],
        note=f"{WANTED} jobs a second {reached} in this run: {rates[OURS]:.0f}",
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    logging.disable(logging.CRITICAL)  # Huey logs every job to the terminal
    try:
        return [drain()]
    finally:
        logging.disable(logging.NOTSET)
