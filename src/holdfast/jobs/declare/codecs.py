"""Arguments and results: from a declared type to JSON text and back.

Dataclasses, msgspec structs, TypedDicts, named tuples, enums and JSON values are read and written
by msgspec, which is loaded when the first job is declared; pydantic's models by pydantic. Inside
them times, UUIDs, decimals, bytes (as base64) and paths may stand wherever they are declared.

Arguments are read back before they are stored: what a handler would not get as it was given is
refused while the caller is still there to hear it.
"""

from typing import Any, Final

from holdfast.jobs.declare.json_codec import CheckedJsonCodec, JsonCodec, is_pydantic
from holdfast.jobs.declare.kinds import Codec
from holdfast.jobs.declare.pydantic_codec import PydanticCodec
from holdfast.jobs.declare.validation import PayloadTooLarge, ValidationError, shown

PAYLOAD_LIMIT: Final = 256 * 1024
"""Bytes of JSON text that the arguments of one job may have, unless the engine says otherwise."""


def check_size(what: str, kind: str, text: str, limit: int) -> None:
    """Refuse JSON `text` of more than `limit` bytes; `what` of `kind` it is.

    Raises:
        PayloadTooLarge: it is larger.
    """
    # A character has at most four bytes; most texts are far too short to be worth encoding again.
    if len(text) * 4 <= limit:
        return
    size = len(text.encode())
    if size > limit:
        raise PayloadTooLarge(f"{what} of {kind}", size, limit)


def arguments_codec(declared: Any, subject: str) -> Codec:
    """Return the codec of arguments of the type `declared`; `subject` begins its error messages.

    Raises:
        TypeError: values of such a type cannot be stored.
    """
    if is_pydantic(declared):
        return PydanticCodec(declared, subject)
    return CheckedJsonCodec(declared, subject)


def results_codec(declared: Any, subject: str) -> Codec:
    """Return the codec of results of the type `declared`.

    What a handler returns is written as it is: its effects have happened, and a job that did its
    work is not failed for an annotation that promised something else. Reading it back checks it.

    Raises:
        TypeError: values of such a type cannot be stored.
    """
    return JsonCodec(declared, subject)


class NoArguments:
    """The codec of handlers that take none."""

    __slots__ = ("_subject",)

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def encode(self, value: object) -> str:
        """Return `null`; anything but None is refused."""
        if value is not None:
            problem = f"the handler takes no arguments, got {shown(value)}"
            raise ValidationError(self._subject, problem)
        return "null"

    def decode(self, text: str) -> None:
        """Return None, whatever an older version of the handler was once given."""
