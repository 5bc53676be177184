"""A handler is read from its function; the first parameter is its context."""

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.handler_signature import handler_of

if TYPE_CHECKING:
    from nowhere import LateContext  # type: ignore[import-not-found]


class HasAttempt(Protocol):
    attempt: int


class OwnContext(JobContext):
    pass


def plain(ctx, args: int): ...
def exact(ctx: JobContext, args: int): ...
def as_text(ctx: "JobContext", args: int): ...
def anything(ctx: Any, args: int): ...
def everything(ctx: object, args: int): ...
def optional(ctx: JobContext | None, args: int): ...
def protocol(ctx: HasAttempt, args: int): ...
def own(ctx: OwnContext, args: int): ...
def late(ctx: "LateContext", args: int): ...


@pytest.mark.parametrize(
    "function",
    [plain, exact, as_text, anything, everything, optional, protocol, own, late],
    ids=lambda function: function.__name__,
)
def test_a_first_parameter_that_can_be_the_context_is_taken(function):
    handler = handler_of("a.work", function, {})
    assert (handler.takes_arguments, handler.arguments.decode("5")) == (True, 5)


def number(number: int): ...
def mapping(order: dict[str, int]): ...
def union(order: int | str, ctx: JobContext): ...


@pytest.mark.parametrize("function", [number, mapping, union], ids=lambda each: each.__name__)
def test_a_first_parameter_that_cannot_be_the_context_is_refused(function):
    first = next(iter(function.__annotations__))
    with pytest.raises(TypeError, match=f"the first parameter is the JobContext, but '{first}'"):
        handler_of("a.work", function, {})
