"""A request for a job, as `enqueue_many` takes it, and what identifies a job."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.job_handle import JobHandle
from holdfast.jobs.model import Job
from holdfast.jobs.structs import value
from holdfast.jobs.views import DeadLetter

ArgsT = TypeVar("ArgsT")
ResultT = TypeVar("ResultT")

JobId = str | JobHandle[Any] | Job | DeadLetter
"""Identifies a job: its id, the handle that `enqueue` returned, a Job or a DeadLetter."""


@value
class JobRequest(Generic[ArgsT, ResultT]):
    """A job to be enqueued.

    Args:
        job: the declared function, or the name of its kind.
        args: its arguments.
        dedup_key: while a job of the same kind with the same key is unfinished or complete, that
            job, its twin, is returned and none is created.
        owner: the user that the job belongs to.
        priority: higher runs first within its queue and downstream; -32768 to 32767.
        run_at: earliest start: a datetime with a time zone, epoch seconds, or a timedelta from now.
        delay: earliest start, in seconds or as a timedelta from now; in place of `run_at`.
        deadline: when an unfinished job fails with `TIMEOUT`: seconds or a timedelta from now, or a
            datetime with a time zone. By default the kind's, from now or from the earliest start,
            whichever is later.
        id: unique until retention deletes the job; enqueueing it again returns that job. By
            default an id is generated.
        meta: JSON values for pages (file name, size, ...), also available to the handler.
        uploaded: create it `uploaded`, to wait for `Engine.submit` or `Engine.reject`.
        dedup: `"unfinished"`: only unfinished twins count, so that work can be done again.
        dedup_for: only twins that were created within so many seconds, or this timedelta, count.
        beyond_limits: create it also where its owner has as many unfinished jobs as it may, because
            it belongs to work that was taken in before.
    """

    job: JobFunction[ArgsT, ResultT] | str
    args: ArgsT
    dedup_key: str | None = None
    owner: str | None = None
    priority: int = 0
    run_at: float | datetime | timedelta | None = None
    delay: float | timedelta | None = None
    deadline: float | datetime | timedelta | None = None
    id: str | None = None
    meta: Mapping[str, Any] | None = None
    uploaded: bool = False
    dedup: Literal["complete", "unfinished"] = "complete"
    dedup_for: float | timedelta | None = None
    beyond_limits: bool = False

    @property
    def kind_name(self) -> str:
        """The name of the requested kind."""
        return self.job.kind.name if isinstance(self.job, JobFunction) else self.job
