"""A reliable Celery task beside others: the same worker, broker, database and insert.

All are acknowledged late, with Celery's own prefetch, and store no result. The plain one inserts
its row again where its message comes again. The one that is deduplicated by hand does not, but has
no lease, no count of attempts, no durable retry and no dead letter.
"""

import os
import subprocess
import sys
import time

import psycopg
from tests.support.postgres_server import PostgresMissing, PostgresServer
from tests.support.programs import Missing
from tests.support.rabbitmq_server import RabbitServer

from benchmarks.holdfast_queue import fresh_database
from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized

PLAIN = "plain Celery task, acknowledged late"
BY_HAND = "the same with a table of handled task ids"
RELIABLE = "ReliableTask"
_MODULE = "benchmarks.reliable_task_app"
_GIVE_UP = 300.0


def rows() -> list[Row]:
    """Measure both; nothing where a server is missing."""
    try:
        with RabbitServer() as broker, PostgresServer() as server:
            rates = best_rates(
                {
                    PLAIN: lambda: _rate(broker, server, "plain"),
                    BY_HAND: lambda: _rate(broker, server, "deduplicated"),
                    RELIABLE: lambda: _rate(broker, server, "reliable"),
                },
                rounds=sized(1, 3),
            )
    except (Missing, PostgresMissing) as error:
        return [Row("reliable task", note=f"not measured: {error}")]
    return [
        Row(
            "a Celery task that inserts a row, handled once and retried durably",
            rate_ratios(rates, RELIABLE),
            {name: round(rate) for name, rate in rates.items()},
            [Goal(PLAIN, round(1 / 1.3, 2))],
        )
    ]


def _rate(broker: RabbitServer, server: PostgresServer, task: str) -> float:
    """Return the tasks per second of one worker with two processes, once both are at work."""
    count = sized(600, 4_000)
    with fresh_database(server, migrated=True) as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE effects (n int, at timestamptz)")
            connection.execute("CREATE TABLE handled (id text PRIMARY KEY)")
        environment = {**os.environ, "BENCH_BROKER": broker.url(), "BENCH_DATABASE": url}
        send = f"from {_MODULE} import {task}\nfor n in range({count}): {task}.delay(n)"
        subprocess.run([sys.executable, "-c", send], env=environment, check=True)
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
        command = [sys.executable, "-m", "celery", "-A", _MODULE, "worker", "-c", "2", *quiet]
        worker = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            return _rate_of_effects(url, count)
        finally:
            worker.terminate()
            worker.wait()


def _rate_of_effects(url: str, count: int) -> float:
    """Wait for all rows; return their rate, without the first tenth."""
    skipped = count // 10
    end = time.monotonic() + _GIVE_UP
    with psycopg.connect(url, autocommit=True) as connection:
        while _counted(connection) < count:
            if time.monotonic() > end:
                raise TimeoutError(f"{count} tasks did not finish in {_GIVE_UP:g} s")
            time.sleep(0.2)
        seconds = connection.execute(
            "SELECT extract(epoch FROM max(at) - min(at)) FROM "
            "(SELECT at FROM effects ORDER BY at OFFSET %s) AS measured",
            (skipped,),
        ).fetchone()
    assert seconds is not None
    return (count - skipped) / float(seconds[0])


def _counted(connection: "psycopg.Connection[tuple[int, ...]]") -> int:
    found = connection.execute("SELECT count(*) FROM effects").fetchone()
    assert found is not None
    return found[0]
