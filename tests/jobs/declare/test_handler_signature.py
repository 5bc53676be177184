"""A handler is read from its function: its context first, then its arguments."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.handler_signature import bound_arguments, handler_of
from holdfast.jobs.declare.validation import ValidationError

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


def several(ctx, order: int, note: str = "none", *, at: datetime | None = None):
    return order, note, at


NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "given, named, stored, called",
    [
        ((7,), {}, '{"order":7}', (7, "none", None)),
        ((7, "x"), {}, '{"order":7,"note":"x"}', (7, "x", None)),
        (
            (),
            {"at": NOON, "order": 7},
            '{"order":7,"at":"2024-01-01T12:00:00Z"}',
            (7, "none", NOON),
        ),
    ],
)
def test_several_arguments_are_stored_by_name(given, named, stored, called):
    handler = handler_of("a.work", several, {})
    arguments = bound_arguments(handler, given, named)
    text = handler.arguments.encode(arguments)
    assert text == stored
    assert handler.call(None, handler.arguments.decode(text)) == called


def test_one_argument_by_name_is_stored_by_name():
    def work(ctx, *, order: int):
        return order

    handler = handler_of("a.work", work, {})
    assert handler.arguments.encode({"order": 7}) == '{"order":7}'
    assert handler.call(None, {"order": 7}) == 7


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({"order": "seven"}, "order: expected int, got 'seven'"),
        ({"note": "x"}, "missing required field `order`"),
        ({"order": 7, "colour": "red"}, "would be decoded differently"),
        (7, "expected object"),
    ],
)
def test_several_arguments_are_checked_before_they_are_stored(arguments, problem):
    handler = handler_of("a.work", several, {})
    with pytest.raises(ValidationError, match=problem):
        handler.arguments.encode(arguments)


def test_an_argument_that_the_function_no_longer_takes_is_left_out():
    handler = handler_of("a.work", several, {})
    assert handler.call(None, handler.arguments.decode('{"order":7,"old":1}')) == (7, "none", None)


def test_arguments_of_a_call_are_those_that_enqueue_takes():
    assert bound_arguments(handler_of("a.work", exact, {}), (5,), {}) == 5
    assert bound_arguments(handler_of("a.work", exact, {}), (), {"args": 5}) == 5
    assert bound_arguments(handler_of("a.work", lambda ctx: None, {}), (), {}) is None
    with pytest.raises(TypeError, match="missing a required argument: 'order'"):
        bound_arguments(handler_of("a.work", several, {}), (), {"note": "x"})


def number(number: int): ...
def mapping(order: dict[str, int]): ...
def union(order: int | str, ctx: JobContext): ...


@pytest.mark.parametrize("function", [number, mapping, union], ids=lambda each: each.__name__)
def test_a_first_parameter_that_cannot_be_the_context_is_refused(function):
    first = next(iter(function.__annotations__))
    with pytest.raises(TypeError, match=f"the first parameter is the JobContext, but '{first}'"):
        handler_of("a.work", function, {})
