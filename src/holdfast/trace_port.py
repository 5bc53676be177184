"""Carry the context of a trace with jobs and messages; `holdfast.telemetry.tracing` implements it.

The context travels as the W3C headers `traceparent` and `tracestate`: in the `meta` of a job, and
in the headers of a message. Without tracing nothing is stored and nothing is called.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

TRACE_HEADERS = ("traceparent", "tracestate")
"""The names of the headers."""


class Tracing(Protocol):
    """Traces what an engine does."""

    def sending(
        self, destination: str, count: int = 1
    ) -> AbstractContextManager[Mapping[str, str]]:
        """Return a span around the creation of jobs or messages; it yields their headers."""
        ...

    def calling(self, downstream: str) -> AbstractContextManager[None]:
        """Return a span around a call to a downstream."""
        ...

    def current_headers(self) -> Mapping[str, str]:
        """Return the headers of the trace that the caller is in; none outside of one."""
        ...

    def attempt(self, ctx: Any) -> AbstractContextManager[None] | None:
        """Begin the span of the attempt `ctx`, which ends with the block; None if not recorded.

        Called in the task of the attempt, so that what runs there learns of the decision.
        """
        ...


class TraceHeaders(msgspec.Struct, frozen=True):
    """The headers of a trace, as read from the `meta` of a job or the headers of a message."""

    traceparent: str | None = None
    tracestate: str | None = None

    def as_dict(self) -> dict[str, str]:
        """Return those that are there."""
        found = ((name, getattr(self, name)) for name in TRACE_HEADERS)
        return {name: value for name, value in found if value is not None}


_NONE = TraceHeaders()
_DECODER = msgspec.json.Decoder(TraceHeaders)


def trace_headers(text: str | None) -> TraceHeaders:
    """Return the headers of a trace in the JSON object `text`; without one, both are None."""
    if text is None or "traceparent" not in text:
        return _NONE
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        return _NONE  # a user's own field of that name


def with_trace(text: str | None, headers: Mapping[str, str]) -> str | None:
    """Return the JSON object `text` with `headers` added, unless it has a trace already."""
    if not headers:
        return text
    given = {} if text is None else msgspec.json.decode(text)
    if not isinstance(given, dict) or TRACE_HEADERS[0] in given:
        return text
    return msgspec.json.encode({**given, **headers}).decode()
