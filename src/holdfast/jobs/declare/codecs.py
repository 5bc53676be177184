"""Encode arguments and results of a declared type as JSON text, and decode them.

msgspec handles dataclasses, msgspec structs, TypedDicts, named tuples, enums and JSON values, with
times, UUIDs, decimals, bytes (as base64) and paths inside them; it is imported when the first job
is declared. pydantic handles its own models.

Arguments are decoded again before they are stored: the caller gets an error if a handler would
receive something else.
"""

from typing import Any, Final

from holdfast.jobs.declare.json_codec import CheckedJsonCodec, JsonCodec, is_pydantic
from holdfast.jobs.declare.kinds import Codec
from holdfast.jobs.declare.pydantic_codec import PydanticCodec
from holdfast.jobs.declare.validation import PayloadTooLarge, ValidationError, shown

PAYLOAD_LIMIT: Final = 256 * 1024
"""Default limit of one job's arguments, in bytes of JSON text."""


def check_size(what: str, kind: str, text: str, limit: int) -> None:
    """Check that the JSON `text` has at most `limit` bytes; `what` and `kind` name it in errors.

    Raises:
        PayloadTooLarge: it is larger.
    """
    # A character has at most four bytes, so short texts need not be encoded again.
    if len(text) * 4 <= limit:
        return
    size = len(text.encode())
    if size > limit:
        raise PayloadTooLarge(f"{what} of {kind}", size, limit)


def arguments_codec(declared: Any, subject: str) -> Codec:
    """Return the codec for arguments of the type `declared`; error messages start with `subject`.

    Raises:
        TypeError: values of such a type cannot be stored.
    """
    if is_pydantic(declared):
        return PydanticCodec(declared, subject)
    return CheckedJsonCodec(declared, subject)


def result_codec(declared: Any, subject: str) -> Codec:
    """Return the codec for results of the type `declared`; error messages start with `subject`.

    Encoding takes any JSON value: a job that did its work must not fail because of a wrong
    annotation. Decoding checks the value against the declared type.

    Raises:
        TypeError: values of such a type cannot be stored.
    """
    return JsonCodec(declared, subject)


class NoArguments:
    """The codec for handlers without arguments."""

    __slots__ = ("_subject",)

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def encode(self, value: object) -> str:
        """Return `null`; refuse any value but None."""
        if value is not None:
            problem = f"the handler takes no arguments, got {shown(value)}"
            raise ValidationError(self._subject, problem)
        return "null"

    def decode(self, text: str) -> None:
        """Return None, even if an older version of the handler took arguments."""
