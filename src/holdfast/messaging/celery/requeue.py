"""Send a message back to its queue: what became of its delivery is not in the store.

A message that is rejected is delivered again at once, so the worker pauses first. A quorum queue
counts such deliveries and gives a message up at its limit, which is 20 by default in RabbitMQ 4: a
store that is away for longer would cost the message. So one that was counted several times is
replaced by a fresh copy, of which the broker has counted none.
"""

import logging
from typing import Any

from celery.exceptions import Ignore, Reject

from holdfast.clock import Clock
from holdfast.jobs.error_text import one_line
from holdfast.messaging.celery.task_messages import deliveries_before, publish_now, same_message
from holdfast.resilience.backoff import Exponential

_log = logging.getLogger("holdfast.celery")

_PAUSE = Exponential(base=2.0, multiplier=2, cap=15.0, jitter=0.0)
_COUNTED_AT_MOST = 3
"""Deliveries of a message that a quorum queue counts before a copy replaces it."""


def sent_back(task: Any, error: BaseException, clock: Clock) -> Reject | Ignore:
    """Pause, and return the exception that sends the running message of `task` back to its queue.

    It is `Ignore`, which acknowledges the message, only after a copy of it was confirmed.
    """
    # As text: an exception that cannot be pickled would not reach the worker's main process,
    # which then acknowledges the message.
    reason = one_line(error)
    counted = deliveries_before(task)
    _log.error("%s: message %s goes back: %s", task.name, task.request.id, reason)
    try:
        clock.sleep(_PAUSE.nominal(counted + 1))
        if counted >= _COUNTED_AT_MOST:
            publish_now(task.app, same_message(task))
            return Ignore(f"replaced by a copy: {reason}")
    except Exception as interruption:
        # A time limit that strikes now, or a broker that does not take the copy.
        _log.warning("%s: message %s: %s", task.name, task.request.id, one_line(interruption))
    return Reject(reason, requeue=True)
