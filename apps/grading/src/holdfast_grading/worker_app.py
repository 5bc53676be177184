"""Put a worker's Celery app together: its queue, its consumer, its engine and its tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery import Celery, signals
from kombu.entity import Queue

from holdfast import BreakerPolicy, Engine
from holdfast.messaging import QueueSpec
from holdfast.messaging.celery import connect
from holdfast_grading.grading_tasks import declare_tasks
from holdfast_grading.messages import DEAD_LETTERS, REQUEST
from holdfast_grading.task_providers import TaskCalls, TaskProviders
from holdfast_grading.task_transaction import check_driver
from holdfast_grading.worker_settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class WorkerApp:
    """The Celery app of a worker, and what its tasks use.

    Attributes:
        engine: returns the blocking engine of the calling process, which it opens.
    """

    celery: Celery
    engine: Callable[[], Any]
    providers: TaskProviders


def create_worker_app(settings: WorkerSettings) -> WorkerApp:
    """Return the app of a worker that is set up like this.

    Raises:
        BadSetting: the driver of the database is not installed.
    """
    check_driver(settings.database_url)
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
    engine: Callable[[], Any] = connect(celery, lambda: Engine(settings.database_url)).get
    calls = TaskCalls(engine, settings.retry.breaker or BreakerPolicy())
    providers = TaskProviders(settings.grading, calls, lambda *given: engine().shared_rate(*given))
    declare_tasks(celery, settings, engine, providers)
    signals.worker_process_shutdown.connect(lambda **_: providers.close(), weak=False)
    return WorkerApp(celery, engine, providers)
