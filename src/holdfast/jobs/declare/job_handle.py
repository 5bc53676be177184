"""What `enqueue` takes besides the job and its arguments, and what it returns."""

from collections.abc import Generator, Mapping
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar

from holdfast.jobs.structs import value

ResultT_co = TypeVar("ResultT_co", covariant=True)


class RequestOptions(TypedDict, total=False):
    """Options of `enqueue`; `JobRequest` explains each."""

    dedup_key: str | None
    owner: str | None
    priority: int
    run_at: float | datetime | timedelta | None
    delay: float | timedelta | None
    deadline: float | datetime | timedelta | None
    id: str | None
    meta: Mapping[str, Any] | None
    uploaded: bool
    dedup: Literal["complete", "unfinished"]
    dedup_for: float | timedelta | None
    beyond_limits: bool


@value
class JobHandle(Generic[ResultT_co]):
    """An enqueued job. The engine accepts it in place of a job's id.

    `created` is False if a job with the same `dedup_key` or `id` existed already; then `id` is
    that job's.
    """

    id: str
    kind: str
    created: bool


@value
class PendingJob(JobHandle[ResultT_co]):
    """A job that `ctx.enqueue` creates when the attempt's own job completes.

    Awaiting it is optional and returns it. If a job with its `dedup_key` or `id` exists by then,
    none is created; `created` is True all the same, since that is not known before.
    """

    def __await__(self) -> Generator[Any, None, Self]:
        # A bare yield is what asyncio.sleep(0) does: the task is scheduled again at once.
        yield
        return self
