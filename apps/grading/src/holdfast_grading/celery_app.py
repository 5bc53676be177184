"""The Celery workers of grading: `celery -A holdfast_grading.celery_app worker`.

They need RABBITMQ_URL and HOLDFAST_DATABASE_URL, and the settings of the providers. A relay must
run beside them, in `holdfast serve` or as `holdfast relay`.
"""

import os
from typing import Any

from celery import Celery
from kombu.entity import Queue

from holdfast import Engine
from holdfast.messaging import QueueSpec
from holdfast.messaging.celery import connect
from holdfast_grading.grading_tasks import declare_tasks
from holdfast_grading.messages import DEAD_LETTERS, REQUEST
from holdfast_grading.worker_settings import WorkerSettings

__all__ = ["app"]


def create(settings: WorkerSettings) -> Celery:
    """Return the Celery app of a worker that is set up like this."""
    queue = QueueSpec(REQUEST, dead_letter_to=DEAD_LETTERS)
    new_queue: Any = Queue  # kombu has no types
    celery = Celery("holdfast_grading", broker=settings.broker_url, set_as_current=False)
    celery.conf.update(
        # By the default exchange and the queue's own name, as the relay publishes.
        task_queues=[new_queue(REQUEST, routing_key=REQUEST, queue_arguments=queue.arguments)],
        task_default_queue=REQUEST,
        task_ignore_result=True,
        # A request that waits in a busy process is one that an idle process does not grade.
        worker_prefetch_multiplier=1,
        worker_consumer="holdfast_grading.celery_consumer:RejectingConsumer",
        broker_connection_retry_on_startup=True,
    )
    process = connect(celery, lambda: Engine(settings.database_url))
    declare_tasks(celery, settings, process.get)
    return celery


app = create(WorkerSettings.load(os.environ))
