"""Read arguments that an earlier release of the declaration may have stored.

A field that was added needs a default, and one that was removed is ignored. Anything else needs the
kind's `convert`: it gets the stored JSON value where that does not fit exactly, that is, where it
is not of the declared type or has fields which that type does not have, and returns the new form.
"""

import json
import re
from typing import Any

from holdfast.errors import ErrorCode
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.validation import ValidationError

_VALUE = re.compile(r"[,;] got .*", re.DOTALL)
"""Where the message of a codec shows the value that it refuses."""


class ArgumentsMismatch(ValidationError):
    """Stored arguments do not fit the declaration, and no `convert` helped."""

    code = ErrorCode.ARGUMENTS_MISMATCH

    def __init__(self, kind: str, problem: str) -> None:
        # Without values: this goes into the log and to pages, where arguments do not belong.
        super().__init__(f"the stored arguments do not fit {kind}", _VALUE.sub("", problem))


def decode_arguments(kind: JobKind, text: str) -> Any:
    """Return the arguments of a job of `kind` stored as `text`, converted where they do not fit.

    Raises:
        ArgumentsMismatch: they do not fit, and `convert` is missing or did not help.
    """
    codec, convert = kind.handler.arguments, kind.convert
    try:
        value = codec.decode(text)
        if convert is None or not _loses_fields(text, codec.encode(value)):
            return value
    except ValidationError as error:
        if convert is None:
            raise ArgumentsMismatch(kind.name, str(error)) from None
    try:
        return codec.decode(codec.encode(convert(json.loads(text))))
    except ValidationError as error:
        raise ArgumentsMismatch(kind.name, f"after convert: {error}") from None
    except Exception as error:
        # The user's own code: whatever it raises, the job must not fail because of it.
        problem = f"convert raised {type(error).__name__}: {error}"
        raise ArgumentsMismatch(kind.name, problem) from error


def _loses_fields(stored: str, read: str) -> bool:
    """Say whether a stored JSON object has fields that are not there once it is read."""
    before, after = json.loads(stored), json.loads(read)
    return (
        isinstance(before, dict) and isinstance(after, dict) and not before.keys() <= after.keys()
    )
