"""Celery tasks with Holdfast's guarantees: put `ReliableTask` under the tasks that you have.

    connect(app, lambda: Engine(DATABASE_URL))

    @app.task(base=ReliableTask, bind=True, downstream="llm")
    def grade(self, submission_id, text): ...

Retries, dead letters and the counts of attempts are in the database of the engine, so a relay
(`holdfast relay`) must run beside the workers: it publishes the retries when they are due.

Needs `pip install 'holdfast[celery,rabbitmq]'`. Runs in the pools prefork, threads and solo.
"""

try:
    import celery as _celery  # noqa: F401 - named in the error where it is missing
except ModuleNotFoundError as error:
    if error.name != "celery":
        raise
    raise ModuleNotFoundError(
        "holdfast.messaging.celery needs Celery: pip install 'holdfast[celery,rabbitmq]'",
        name="celery",
    ) from None

from holdfast.messaging.celery.process_engine import NotConnected, connect
from holdfast.messaging.celery.task import AlreadyHandled, ReliableTask, TaskEvent

__all__ = ["AlreadyHandled", "NotConnected", "ReliableTask", "TaskEvent", "connect"]
