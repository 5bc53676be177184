"""Declare how long finished jobs of a kind are kept."""

import inspect
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.jobs.model import JobStatus
from holdfast.jobs.store_values import Deleted, RetentionRule
from holdfast.resilience import checks

_DAY = 86400.0
_log = logging.getLogger("holdfast.maintenance")


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished jobs are kept, with their attempts and events.

    A job is deleted once it exceeds either limit of its status. None is no limit.

    Args:
        complete_for: seconds that a complete job is kept.
        complete_newest: how many complete jobs of the kind are kept.
        failed_for: seconds that a failed job is kept, dead letters included.
        failed_newest: how many failed jobs of the kind are kept.
        cancelled_for: seconds that a cancelled job is kept.
        cancelled_newest: how many cancelled jobs of the kind are kept.
        on_deleted: a function, plain or async, called with each deleted job, to delete its files.
            It is called once, after the deletion: if it raises, or the process ends in between,
            the files stay. Name files after their job, so that a cleanup can delete those whose
            job is gone (`engine.get` returns None).
    """

    complete_for: float | None = 7 * _DAY
    complete_newest: int | None = None
    failed_for: float | None = None
    failed_newest: int | None = None
    cancelled_for: float | None = 7 * _DAY
    cancelled_newest: int | None = None
    on_deleted: Callable[[Deleted], object] | None = None

    def __post_init__(self) -> None:
        for status in _STATUSES:
            seconds, newest = f"{status}_for", f"{status}_newest"
            checks.number(seconds, getattr(self, seconds), at_least=0, optional=True)
            checks.whole(newest, getattr(self, newest), at_least=0, optional=True)
        checks.function("on_deleted", self.on_deleted, optional=True)

    def rules(self, kind: str) -> tuple[RetentionRule, ...]:
        """Return the deletion rules of `kind`; a status without a limit has no rule."""
        limits = (
            (status, getattr(self, f"{status}_for"), getattr(self, f"{status}_newest"))
            for status in _STATUSES
        )
        return tuple(
            RetentionRule(kind, status, max_age=seconds, max_count=newest)
            for status, seconds, newest in limits
            if seconds is not None or newest is not None
        )


_STATUSES = (JobStatus.COMPLETE, JobStatus.FAILED, JobStatus.CANCELLED)

FOREVER = Retention(complete_for=None, cancelled_for=None)
"""Keep everything."""

DOCUMENTS = Retention(complete_for=3600.0, complete_newest=1000, failed_for=_DAY)
"""Keep complete jobs for an hour, at most the newest 1000, and failed jobs for a day."""


async def call_on_deleted(kind: str, retention: Retention, deleted: Iterable[Deleted]) -> None:
    """Call `on_deleted` for jobs of `kind` that were deleted; log what it raises."""
    if retention.on_deleted is None:
        return
    for job in deleted:
        try:
            answer = retention.on_deleted(job)
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            # One failure must not keep the files of the other jobs.
            _log.exception("%s: on_deleted failed for job %s", kind, job.id)
