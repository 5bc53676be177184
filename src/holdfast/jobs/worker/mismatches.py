"""Log that stored arguments cannot be read: once for each kind and reason, not for each job."""

import logging

from holdfast.jobs.views import normalise_error
from holdfast.jobs.worker.failure import Failure

_log = logging.getLogger("holdfast.worker")
_MOST = 1000
"""Reasons that are remembered; beyond that all are forgotten, and logged again."""


class MismatchLog:
    """Log each reason once per kind."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def note(self, kind: str, job_id: str, failure: Failure) -> None:
        """Log that the arguments of a job of `kind` could not be read, unless that is known."""
        reason = kind, normalise_error(failure.message)
        if reason in self._seen:
            return
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen.add(reason)
        _log.error(
            "%s: job %s and those like it wait, and are tried again later: %s. Start a worker "
            "whose declaration fits, or declare convert= to read what is stored",
            kind, job_id, failure.message,
        )  # fmt: skip
