"""Errors in what a person typed: the command ends with exit code 2."""

import difflib
import traceback
from collections.abc import Iterable


class UsageError(ValueError):
    """An argument of the command is wrong; the message is one line."""


class NoDatabase(UsageError):
    """The database of the settings, or of the command, does not exist."""


def guess(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the nearest of `known` names, or nothing."""
    near = difflib.get_close_matches(name, tuple(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def one_line(error: BaseException) -> str:
    """Return what `error` says and where it was raised, in one line."""
    text = "".join(traceback.format_exception_only(error)).strip().splitlines()
    if isinstance(error, SyntaxError):
        place = (error.filename, error.lineno)
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = (frame.filename, frame.lineno)
    return f"{text[-1]} ({place[0]}, line {place[1]})"
