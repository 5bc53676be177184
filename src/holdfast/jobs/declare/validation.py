"""Errors for invalid arguments and results: which field, and its value."""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.model import NewJob

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that no store accepts in a text: NUL and lone surrogates."""
_SHOWN = 80
"""Most characters of a value in an error message."""


class ValidationError(HoldfastError, ValueError):
    """A value is not of the declared type, or cannot be stored.

    `field` is the path of the invalid field (`"lines[2].amount"`), empty for the whole value.
    """

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, subject: str, problem: str, *, field: str = "") -> None:
        place = f"{subject}: {field}" if field else subject
        super().__init__(f"{place}: {problem}")
        self.field = field


class PayloadTooLarge(HoldfastError, ValueError):
    """Arguments or a result exceed the limit in bytes of JSON text."""

    code = ErrorCode.TOO_LARGE

    def __init__(self, subject: str, size: int, limit: int) -> None:
        super().__init__(
            f"{subject}: {size} bytes of JSON exceed the limit of {limit}; store large data "
            f"elsewhere and pass its name, or raise payload_limit of the engine"
        )
        self.size = size
        self.limit = limit


def shown(value: object) -> str:
    """Return the repr of `value` for an error message, cut after 80 characters."""
    try:
        text = repr(value)
    except Exception:  # a repr is the user's code and may do anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def check_rule(rules: MutableMapping[tuple[str, str], DedupRule | None], job: NewJob) -> None:
    """Note in `rules` the rule of the job's dedup key, if it has one, by kind and key.

    Raises:
        ValidationError: another rule is noted for the key.
    """
    key = job.dedup_key
    if key is not None and rules.setdefault((job.kind, key), job.dedup_rule) != job.dedup_rule:
        raise ValidationError(
            f"job {job.kind}",
            f"two requests with the dedup_key {shown(key)} have different dedup or dedup_for",
        )


def type_name(declared: Any) -> str:
    """Return the name of a type for an error message."""
    return declared.__qualname__ if isinstance(declared, type) else str(declared)


_EXPECTED = re.compile(r"^Expected `(?P<expected>[^`]*)`, got `[^`]*`")
_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`$")
_STEP = re.compile(r"\[(\d+)\]|\[(\.\.\.)\]|([^.\[\]]+)")


def validation_error(subject: str, message: str, given: object) -> ValidationError:
    """Return the error for the codec's `message`, with the field and its value in `given`."""
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


def field_path(location: tuple[int | str, ...]) -> str:
    """Return the path of a field as text, `lines[2].amount`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".")
