"""The consumer of the Celery workers: a message that cannot be read is dead-lettered, not lost."""

import logging
from typing import Any

from celery.worker.consumer import Consumer

_log = logging.getLogger("holdfast.grading")


class RejectingConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Celery's consumer, but for messages whose body cannot be decoded.

    Celery acknowledges these, which deletes them. Rejected, they go where the queue sends its
    dead letters, as Celery does itself with those that name no task.
    """

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Reject `message`, for which `exc` was raised."""
        _log.error("a message of %s cannot be read: %s", message.delivery_info, exc)
        message.reject()
