"""The Celery worker of the grading campaign: `celery -A campaigns.grading_worker worker`.

It is the app's own, but some of its processes kill themselves inside a task's transaction, after
the request was recorded as handled and before the commit. The app has no code for that.
"""

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast_grading import grading_tasks
from holdfast_grading.celery_app import app
from holdfast_grading.task_transaction import task_transaction

__all__ = ["app"]

_SHARE = float(os.environ["CAMPAIGN_CRASHES"])
"""The share of the transactions in which their process dies."""


@contextmanager
def _deadly_transaction(url: str) -> Iterator[Any]:
    with task_transaction(url) as connection:
        yield connection
        # Each process draws its own numbers: after a fork all have the same generator.
        if random.SystemRandom().random() < _SHARE:
            os.kill(os.getpid(), signal.SIGKILL)


vars(grading_tasks)["task_transaction"] = _deadly_transaction
