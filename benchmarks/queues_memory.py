"""Durable jobs, compared with queues in memory: BullMQ, Dramatiq and Celery.

Holdfast writes every job, attempt and event to disk with fsync, on SQLite and on PostgreSQL. Redis
and Celery's queue write nothing to disk. Dramatiq's messages on RabbitMQ are persistent, but it
does not wait for confirms. The workers of Dramatiq and Celery are started by their own commands,
with one process per core; their start-up time is not counted.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.support.postgres_server import PostgresMissing, PostgresServer
from tests.support.programs import Missing, running

from benchmarks import services
from benchmarks.holdfast_queue import BULK, OURS, added_and_drained, fresh_database
from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized

# The concurrency at which BullMQ was fastest here, in one process; Redis uses the other core.
BULLMQ_CONCURRENCY = 100
ROOT = Path(__file__).parent.parent
BULLMQ = "BullMQ (Redis, in memory)"
STORES = {"SQLite": f"{OURS} (SQLite)", "PostgreSQL": f"{OURS} (PostgreSQL)"}
_TIMEOUT = 300.0

Turn = Callable[[], tuple[float | None, float]]
"""Returns the rates of bulk add (None if it is not compared) and of drain, in jobs per second."""


def _bullmq(port: int, folder: Path) -> tuple[float, float]:
    jobs = sized(1_000, 20_000)
    numbers = [str(number) for number in (port, jobs, BULK, BULLMQ_CONCURRENCY)]
    done = subprocess.run(
        ["node", "bench.js", *numbers], cwd=folder, capture_output=True, text=True, check=True,
        timeout=_TIMEOUT,
    )  # fmt: skip
    rates = json.loads(done.stdout)
    return rates["add"], rates["drain"]


def _by_command(module: str, broker: str, command: list[str]) -> tuple[None, float]:
    """Enqueue, start the workers, and measure the time for the last nine tenths of the jobs.

    The first tenth is the warm-up. The time ends when the last job has run, before it is
    acknowledged, which favours the peer.
    """
    jobs = sized(1_000, 10_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counter, log = folder / "counter", folder / "log"
        counter.touch()
        environment = {
            "BENCH_BROKER": broker, "BENCH_COUNTER": str(counter), "PYTHONPATH": str(ROOT)
        }  # fmt: skip
        send = f"import {module} as peer; peer.send({jobs})"
        subprocess.run(
            [sys.executable, "-c", send], env={**os.environ, **environment}, check=True,
            capture_output=True, timeout=_TIMEOUT,
        )  # fmt: skip
        with running(
            [sys.executable, "-m", *command], log=log, environment=environment, cwd=folder
        ):
            first, begin = _when(counter, jobs // 10, log)
            last, end = _when(counter, jobs, log)
    if last != jobs:
        raise AssertionError(f"{module} ran {last} jobs, not {jobs}")
    return None, (last - first) / (end - begin)


def _when(counter: Path, jobs: int, log: Path) -> tuple[int, float]:
    """Wait until at least `jobs` are counted; return the number and the time."""
    give_up = time.monotonic() + _TIMEOUT
    while (counted := counter.stat().st_size) < jobs:
        if time.monotonic() > give_up:
            raise AssertionError(f"{counted} of {jobs} jobs: {log.read_text()[-1000:]}")
        time.sleep(0.001)
    return counted, time.perf_counter()


def _dramatiq(broker: str) -> tuple[None, float]:
    module = "benchmarks.memory_peers.dramatiq_app"
    return _by_command(module, broker, ["dramatiq", module, "--processes", "2", "--threads", "8"])


def _celery(broker: str) -> tuple[None, float]:
    module = "benchmarks.memory_peers.celery_app"
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    command = ["celery", "--app", module, "worker", "--concurrency", "2", *quiet]
    return _by_command(module, broker, command)


def _on_sqlite() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        return added_and_drained(f"sqlite:///{folder}/ours.db", sized(2_000, 20_000))


def _on_postgres(server: PostgresServer) -> tuple[float, float]:
    with fresh_database(server, migrated=True) as url:
        return added_and_drained(url, sized(2_000, 20_000))


@contextmanager
def _contenders() -> Iterator[tuple[dict[str, Turn], list[str]]]:
    """Yield the contenders that are available, and why others are missing."""
    turns: dict[str, Turn] = {STORES["SQLite"]: _on_sqlite}
    missing = []
    with ExitStack() as stack:
        try:
            server = stack.enter_context(PostgresServer())
            turns[STORES["PostgreSQL"]] = lambda: _on_postgres(server)
        except PostgresMissing as error:
            missing.append(f"{STORES['PostgreSQL']}: {error}")
        try:
            port = stack.enter_context(services.redis())
            redis = f"redis://127.0.0.1:{port}/0"
            turns["Dramatiq (Redis, in memory)"] = lambda: _dramatiq(redis)
            folder = services.bullmq()
            turns[BULLMQ] = lambda: _bullmq(port, folder)
        except Missing as error:
            missing.append(f"BullMQ and Dramatiq on Redis: {error}")
        try:
            rabbit = stack.enter_context(services.rabbitmq())
            amqp = f"amqp://guest:guest@127.0.0.1:{rabbit}/"
            turns["Dramatiq (RabbitMQ)"] = lambda: _dramatiq(amqp)
            turns["Celery (RabbitMQ, in memory)"] = lambda: _celery(amqp)
        except Missing as error:
            missing.append(f"on RabbitMQ: {error}")
        yield turns, missing


def rows() -> list[Row]:
    """Run every row of this file."""
    added: dict[str, float] = {}

    def turn(name: str, run: Turn) -> float:
        adding, draining = run()
        if adding is not None:
            added[name] = max(added.get(name, 0.0), adding)
        return draining

    with _contenders() as (turns, missing):
        for line in missing:
            print(f"left out, {line}")
        drained = best_rates(
            {name: partial(turn, name, run) for name, run in turns.items()}, rounds=sized(1, 3)
        )
    note = "; ".join(f"left out, {line}" for line in missing)
    return [
        *_compare("drain no-op jobs, compared with queues in memory", drained, note),
        *_compare(f"bulk add, {BULK} jobs per call, compared with a queue in memory", added, note),
    ]


def _compare(work: str, rates: dict[str, float], note: str) -> list[Row]:
    """Return one row per store; the goal is to be at least as fast as every peer."""
    peers = {name: rate for name, rate in rates.items() if name not in STORES.values()}
    if not peers:
        return []
    return [
        Row(
            f"{store}, durable: {work}",
            ratios=rate_ratios({OURS: rates[ours], **peers}, OURS),
            goals=[Goal(peer, 1) for peer in peers],
            note=note,
        )
        for store, ours in STORES.items()
        if ours in rates
    ]
