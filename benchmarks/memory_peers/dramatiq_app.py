"""Dramatiq on the broker at BENCH_BROKER: `dramatiq benchmarks.memory_peers.dramatiq_app`."""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker

from benchmarks.memory_peers.counting import count

_url = os.environ["BENCH_BROKER"]
broker = RedisBroker(url=_url) if _url.startswith("redis:") else RabbitmqBroker(url=_url)
dramatiq.set_broker(broker)


@dramatiq.actor
def nothing() -> None:
    count()


def send(jobs: int) -> None:
    """Put `jobs` no-op jobs in the queue, over one connection."""
    for _ in range(jobs):
        nothing.send()
    broker.close()
