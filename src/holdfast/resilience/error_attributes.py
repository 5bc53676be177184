"""Read attributes of exceptions of any library, without importing it and without raising.

Attributes of foreign exceptions may be missing, may be of any type and may raise when read; their
text may raise too. Nothing here lets such a failure out, since it runs while another error is
being handled.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeGuard, TypeVar

T = TypeVar("T")

MOST_DEPTH = 32
"""How deep causes and groups are followed."""

MOST_ERRORS = 1000
"""How many errors of one chain or group are looked at before the rest is left alone."""

UNREADABLE = (Exception, SystemExit)
"""What reading a foreign exception may raise. Not a `KeyboardInterrupt`: that is a person's."""

_MOST_CHARACTERS = 1000
_MOST_ARGUMENTS = 32
_SUFFIX = "_errorcode"
_TELLING = frozenset(
    (
        *("response", "status_code", "http_status", "status", "code", "sqlstate", "pgcode"),
        *("result", "errno", "orig", "reason", "retry_after", "headers", "details"),
        *("args", "__cause__", "__dict__", "__getattr__", "__getattribute__"),
    )
)


def is_a(thing: object, kind: type[T]) -> TypeGuard[T]:
    """Return whether a thing is of a kind by its real type.

    `isinstance` also believes `__class__`, which may raise, and which a mock uses to pretend.
    """
    return issubclass(type(thing), kind)


def attribute(thing: object, name: str) -> object:
    """Return the attribute, or None where it is missing or cannot be read."""
    try:
        return getattr(thing, name, None)
    except UNREADABLE:
        return None


def name_of(kind: type) -> str:
    """Return the name of a class, as `type` itself reads it: a metaclass may raise instead."""
    name: str = type.__dict__["__name__"].__get__(kind)
    return name


def package_of(kind: type) -> str:
    """Return the top-level package that a class was made by, "" where it does not say."""
    try:
        return str(type.__dict__["__module__"].__get__(kind)).partition(".")[0]
    except UNREADABLE:
        return ""


def own_attributes(error: BaseException) -> dict[str, object]:
    """Return what was set on the instance itself."""
    found = attribute(error, "__dict__")
    return found if is_a(found, dict) else {}


def driver_result(error: BaseException) -> object:
    """Return the result code that an embedded database's driver left as `<library>_errorcode`."""
    for name, value in own_attributes(error).items():
        if is_a(name, str) and name.endswith(_SUFFIX):
            return value
    return None


def is_plain(error: BaseException) -> bool:
    """Return whether the error is a type and a message and nothing else that could be read.

    Most errors are; this saves them a dozen attribute look-ups that find nothing.
    """
    kind: type = type(error)
    if _is_telling(kind) or error.__cause__ is not None:
        return False
    for name in error.__dict__:
        if name in _TELLING or str(name).endswith(_SUFFIX):
            return False
    return not any(is_a(each, BaseException) for each in error.args)


@lru_cache(maxsize=1024)  # bounded: types made at run time must not be kept for ever
def _is_telling(kind: type) -> bool:
    if issubclass(kind, BaseExceptionGroup):
        return True
    ancestors = (each for each in kind.__mro__ if each not in (BaseException, object))
    return any(not _TELLING.isdisjoint(vars(each)) for each in ancestors)


def text(error: BaseException) -> str:
    """Return the start of the error's message in lower case, or "" where it has none to give."""
    try:
        return str(error)[:_MOST_CHARACTERS].lower()
    except UNREADABLE:
        return ""


def inner_errors(error: BaseException) -> Iterator[Exception]:
    """Yield the errors that this one wraps: its cause first, then what it carries.

    SQLAlchemy carries the driver's error as `orig`, urllib and urllib3 as `reason`, requests in
    its arguments. An interruption, such as the cancellation that a timeout is made of, is no
    error of the downstream and is left out.
    """
    carried = (
        attribute(error, "__cause__"),
        attribute(error, "orig"),
        attribute(error, "reason"),
        *_arguments(error),
    )
    for inner in carried:
        if is_a(inner, Exception):
            yield inner


def group_members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the members of an exception group, or nothing for any other error."""
    return error.exceptions if is_a(error, BaseExceptionGroup) else ()


def _arguments(error: BaseException) -> tuple[object, ...]:
    found = attribute(error, "args")
    return found[:_MOST_ARGUMENTS] if is_a(found, tuple) else ()
