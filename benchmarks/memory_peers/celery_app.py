"""Celery on RabbitMQ: `celery -A benchmarks.memory_peers.celery_app worker`."""

import os

from celery import Celery
from kombu.entity import Queue

from benchmarks.memory_peers.counting import count

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
# No results, transient messages, early acknowledgement and a large prefetch: each makes Celery
# faster and less durable.
app.conf.update(
    task_ignore_result=True,
    task_default_delivery_mode="transient",
    task_queues=[Queue("celery", durable=False)],
    worker_prefetch_multiplier=64,
    broker_pool_limit=1,
    worker_hijack_root_logger=False,
)


@app.task
def nothing() -> None:
    count()


def send(jobs: int) -> None:
    """Put `jobs` no-op jobs in the queue, over one connection."""
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        for _ in range(jobs):
            nothing.apply_async(producer=producer)
