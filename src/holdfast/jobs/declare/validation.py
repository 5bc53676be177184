"""What is said of arguments and results that do not fit: which field, what stood there."""

import re
from collections.abc import Mapping
from typing import Any

from holdfast.errors import ErrorCode, HoldfastError

NEVER_KEPT = re.compile("[\0\ud800-\udfff]")
"""What no store can keep in a text: NUL, and half of a surrogate pair."""
_SHOWN = 80
"""Characters of a value that an error message shows."""


class ValidationError(HoldfastError, ValueError):
    """A value that is not of the declared type, or cannot be stored.

    `field` is the path to what is wrong with it (`"lines[2].amount"`), empty for the whole value.
    """

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, subject: str, problem: str, *, field: str = "") -> None:
        place = f"{subject}: {field}" if field else subject
        super().__init__(f"{place}: {problem}")
        self.field = field


class PayloadTooLarge(HoldfastError, ValueError):
    """Arguments with more bytes of JSON text than are allowed."""

    code = ErrorCode.TOO_LARGE

    def __init__(self, subject: str, size: int, limit: int) -> None:
        super().__init__(
            f"{subject}: {size} bytes of JSON are more than the limit of {limit}; store what is "
            f"large elsewhere and pass its name, or raise payload_limit of the engine"
        )
        self.size = size
        self.limit = limit


def shown(value: object) -> str:
    """Return `value` as an error message shows it: its repr, cut after 80 characters."""
    try:
        text = repr(value)
    except Exception:  # a repr is the user's code and may do anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def type_name(declared: Any) -> str:
    """Return how an error message names a type."""
    return declared.__qualname__ if isinstance(declared, type) else str(declared)


_EXPECTED = re.compile(r"^Expected `(?P<expected>[^`]*)`, got `[^`]*`")
_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`$")
_STEP = re.compile(r"\[(\d+)\]|\[(\.\.\.)\]|([^.\[\]]+)")


def described(subject: str, message: str, given: object) -> ValidationError:
    """Return the error for the codec's `message`, with the field and the value it speaks of."""
    place = _PLACE.search(message)
    path = place["path"] if place is not None else ""
    problem = message[: place.start()] if place is not None else message
    found, value = _value_at(given, path)
    expected = _EXPECTED.match(problem)
    if found:
        if expected is not None:
            problem = f"expected {expected['expected']}"
        problem = f"{problem}, got {shown(value)}"
    return ValidationError(subject, problem, field=path)


def _value_at(given: Any, path: str) -> tuple[bool, Any]:
    for index, anything, name in _STEP.findall(path):
        try:
            if anything:
                return True, given
            if name:
                given = given[name] if isinstance(given, Mapping) else getattr(given, name)
            else:
                given = given[int(index)]
        except (AttributeError, LookupError, TypeError):
            return False, None
    return True, given


def dotted(location: tuple[int | str, ...]) -> str:
    """Return the path of a field, given by its steps, as a message shows it."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".")
