"""A Celery app whose task inserts a row: plain, deduplicated by hand, and as a reliable task.

`celery -A benchmarks.reliable_task_app worker`, with BENCH_BROKER and BENCH_DATABASE.
"""

import functools
import os
from typing import Any

import psycopg
from celery import Celery

from holdfast.bootstrap import Engine
from holdfast.messaging.celery import ReliableTask, connect

DATABASE = os.environ["BENCH_DATABASE"]
INSERT = "INSERT INTO effects (n, at) VALUES (%s, clock_timestamp())"
REMEMBER = "INSERT INTO handled (id) VALUES (%s) ON CONFLICT DO NOTHING"

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False, broker_pool_limit=1)
connect(app, lambda: Engine(DATABASE))


@functools.cache
def connection() -> psycopg.Connection[tuple[Any, ...]]:
    """Return the connection of this process."""
    return psycopg.connect(DATABASE)


@app.task(acks_late=True, reject_on_worker_lost=True)
def plain(number: int) -> None:
    """Insert a row as any task does; one that is delivered again inserts it again."""
    with connection().transaction():
        connection().execute(INSERT, (number,))


@app.task(acks_late=True, reject_on_worker_lost=True, bind=True)
def deduplicated(self: Any, number: int) -> None:
    """Insert a row once, as a team writes it by hand: the task's id in a table, in one commit.

    It counts no attempts, retries nothing and has no dead letters.
    """
    with connection().transaction():
        if connection().execute(REMEMBER, (self.request.id,)).rowcount:
            connection().execute(INSERT, (number,))


@app.task(base=ReliableTask, bind=True)
def reliable(self: ReliableTask, number: int) -> None:
    """Insert a row once, however often the message comes."""
    with connection().transaction():
        connection().execute(INSERT, (number,))
        self.complete_in(connection())
