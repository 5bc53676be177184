"""Helpers for tests of error categories."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.errors import Category
from holdfast.resilience.categorize import Diagnosis, categorize, diagnose

NOW = datetime(2025, 10, 17, 12, 0, tzinfo=UTC).timestamp()
"""Epoch seconds at which every error is looked at."""
TRANSIENT, PERMANENT = Category.TRANSIENT, Category.PERMANENT


def look(error: BaseException) -> Diagnosis:
    """Return the diagnosis of `error`."""
    return diagnose(error, wall_now=NOW)


def told(error: BaseException) -> tuple[Category, str]:
    """Return category and code of `error`; `categorize` must agree."""
    found = look(error)
    assert categorize(error) is found.category
    return found.category, str(found.code)


def raised(action: Callable[[], object]) -> Exception:
    """Return what `action` raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller asserts what it is
        action()
    return caught.value


def wrapped(error: BaseException, message: str = "the step failed") -> RuntimeError:
    """Return an unknown error that was caused by `error`."""
    wrapper = RuntimeError(message)
    wrapper.__cause__ = error
    return wrapper


def loose(message: str = "loose", **attributes: Any) -> Exception:
    """Make an error of an unknown class, with the given attributes."""
    error = type("Loose", (Exception,), {})(message)
    vars(error).update(attributes)
    return error


def foreign(package: str, *names: str, base: type[Exception] = Exception) -> type[Exception]:
    """Make a class like one of a library that is not installed here."""
    made = base
    for name in names:
        made = type(name, (made,), {"__module__": f"{package}.exceptions"})
    return made
