"""A function that was declared as a kind of job, as `enqueue` and callers see it."""

import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar

from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.handler_signature import bound_arguments, hook_of
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.model import Job

ArgsT = TypeVar("ArgsT")
ResultT = TypeVar("ResultT")
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class JobFunction(Generic[ArgsT, ResultT]):
    """A function declared as a kind of job; calling it calls the function itself.

    `engine.enqueue` takes it with arguments of `ArgsT`; its result is a `ResultT`.
    """

    def __init__(self, kind: JobKind) -> None:
        self.kind = kind
        functools.update_wrapper(self, kind.handler.function)

    def __repr__(self) -> str:
        return f"<job {self.kind.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was written, without any queue."""
        return self.kind.handler.function(*args, **kwargs)

    def args(self, *args: Any, **kwargs: Any) -> ArgsT:
        """Return what `enqueue` takes for a call with these arguments after `ctx`.

        Raises:
            TypeError: the function cannot be called so.
        """
        bound: ArgsT = bound_arguments(self.kind.handler, args, kwargs)
        return bound

    def existing(
        self,
        function: Callable[[JobContext, ArgsT], ResultT | None]
        | Callable[[JobContext, ArgsT], Awaitable[ResultT | None]],
    ) -> Callable[[JobContext, ArgsT], Any]:
        """Declare how to find the result of an earlier attempt, as a decorator.

        `function(ctx, args)`, plain or async, is called before the handler if the job was claimed
        before: an earlier attempt may have done the work but lost its lease or its process before
        it was recorded. A result other than None becomes the job's result and the handler is not
        called. The function must check that the result is complete.
        """
        self.kind = replace(self.kind, existing=hook_of("existing", function, 2))
        return function

    def before_retry(
        self, function: Callable[[Job], object] | Callable[[Job], Awaitable[object]]
    ) -> Callable[[Job], object]:
        """Declare a check before a manual retry, as a decorator.

        `function(job)`, plain or async, raises to refuse: `Permanent("SOURCE_GONE", "…")` if
        the job's input is gone.
        """
        self.kind = replace(self.kind, before_retry=hook_of("before_retry", function, 1))
        return function


class DeclaredJob(JobFunction[ArgsT, ResultT], Generic[ArgsT, ResultT, P, R]):
    """A `JobFunction` with the call signature of its function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it was written, without any queue."""
        result: R = self.kind.handler.function(*args, **kwargs)
        return result


class NamedArgumentsJob(DeclaredJob[dict[str, Any], ResultT, P, R], Generic[ResultT, P, R, Q]):
    """A job whose function takes several arguments after its context: `Q` is their signature."""

    def args(self, *args: Q.args, **kwargs: Q.kwargs) -> dict[str, Any]:
        """Return what `enqueue` takes for a call with these arguments after `ctx`."""
        return super().args(*args, **kwargs)
