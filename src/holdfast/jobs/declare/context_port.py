"""What a running attempt's context needs from its worker."""

from typing import TYPE_CHECKING, Any, Protocol

from holdfast.jobs.database_port import Database
from holdfast.jobs.declare.attempt_scope import TransactionBlock
from holdfast.jobs.declare.job_handle import RequestOptions
from holdfast.jobs.model import NewJob
from holdfast.jobs.shared_rate import SharedRate
from holdfast.resilience.policy import RateLimit

if TYPE_CHECKING:
    from holdfast.jobs.declare.context import JobContext
    from holdfast.jobs.declare.handler_engine import HandlerEngine
    from holdfast.jobs.declare.job_function import JobFunction


class ContextPort(Protocol):
    """What a context needs from the worker that runs the handler."""

    def progress_noted(self, context: "JobContext") -> None:
        """Notify that `context.take_progress()` has something to store.

        Called from any thread; must return at once and not raise. Called once until
        `take_progress` is called, however often the handler reports progress.
        """
        ...

    def state_of(self, context: "JobContext", /) -> Any:
        """Return what the lifespan of the attempt's app has yielded."""
        ...

    def database_of(self, context: "JobContext", /) -> Database:
        """Return the database of the jobs, for an app's own tables."""
        ...

    def engine_of(self, context: "JobContext", /) -> "HandlerEngine":
        """Return the engine whose worker runs the attempt."""
        ...

    def shared_rate(self, name: str, limit: RateLimit, /) -> SharedRate:
        """Return a rate of calls that is counted in the store."""
        ...

    def new_job(
        self, job: "JobFunction[Any, Any] | str", args: Any, options: RequestOptions, /
    ) -> NewJob:
        """Return the validated job, with its id. Called from any thread."""
        ...

    def transaction(self, context: "JobContext", source: object, /) -> TransactionBlock:
        """Return the attempt's transaction on `source`, not begun yet. Called from any thread."""
        ...
