"""Run an attempt through the middleware of its app."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

from holdfast.jobs.declare.app_hooks import CallNext, Middleware
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.exceptions import ChildError, ContextError
from holdfast.jobs.worker.failure import Failure


class IsolatedFailure(ChildError):
    """What a middleware sees of an exception that a handler raised in a child process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.diagnosis.code, failure.message, failure.traceback)
        self.failure = failure


async def call_through(
    middleware: tuple[Middleware, ...],
    context: JobContext,
    handler: Callable[[], Awaitable[Any]],
    span: AbstractContextManager[None] | None = None,
) -> Any:
    """Return what `handler` returns, as the outermost of `middleware` returns it.

    `span` is around all of them.
    """
    call: CallNext = handler
    for each in reversed(middleware):
        call = _next(each, context, call)
    if span is None:
        return await call()
    with span:
        return await call()


def _next(middleware: Middleware, context: JobContext, inside: CallNext) -> CallNext:
    def call() -> Awaitable[Any]:
        return middleware(context, _once(context, inside))

    return call


def _once(context: JobContext, call: CallNext) -> CallNext:
    """Return `call`, to be called once: an attempt is one run of its handler."""
    called = False

    async def call_next() -> Any:
        nonlocal called
        if called:
            raise ContextError(
                f"job {context.job_id}: a middleware calls call_next() twice; an attempt runs its "
                f"handler once, and the retry policy decides on the next one"
            )
        called = True
        return await call()

    return call_next
