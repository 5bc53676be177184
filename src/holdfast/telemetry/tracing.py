"""Traces by OpenTelemetry: `pip install 'holdfast[otel]'`.

    tracing = Tracing()
    tracing.instrument(engine)

A trace goes from the code that enqueues a job through each of its attempts to the calls that they
make. It follows the semantic conventions for messaging: a job's kind is the destination, its queue
the consumer group. The program brings the SDK and an exporter; without them nothing is recorded.

A decision not to sample is kept: the attempts of such a job make no spans. The provider's sampler
is asked about them only on request, since that costs more than the rest.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import HoldfastError
from holdfast.events import AttemptFailed, CallFinished, Event
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.engine import StoreEngine
from holdfast.trace_port import TraceHeaders, trace_headers

try:
    from opentelemetry import trace
except ModuleNotFoundError as error:
    if error.name not in {"opentelemetry", "opentelemetry.trace"}:
        raise
    raise ImportError("opentelemetry is missing: pip install 'holdfast[otel]'") from None

from opentelemetry.context import Context, attach
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from celery import Celery

__all__ = ["Tracing"]

_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NO_CONTEXT = Context()
_NANOSECONDS = 1_000_000_000

EngineT = TypeVar("EngineT", bound=StoreEngine)


class Tracing:
    """Make spans for jobs, messages and guarded calls.

    It is also a listener for `RetryService(listeners=)`: each guarded call becomes a span, and each
    of its failed attempts an event of the span around it.

    Args:
        provider: where spans go; by default OpenTelemetry's global provider.
        keep_unsampled: make no spans for a job that was enqueued in a trace that is not sampled, as
            the SDK's `ParentBased` decides; with False the provider's sampler is asked.
        clock: the source of time.
    """

    def __init__(
        self,
        provider: trace.TracerProvider | None = None,
        *,
        keep_unsampled: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._tracer = trace.get_tracer("holdfast", tracer_provider=provider)
        self._keep_unsampled = keep_unsampled
        self._propagator = TraceContextTextMapPropagator()
        self._clock = clock
        self._attempts: dict[str, tuple[str, dict[str, Any]]] = {}

    def instrument(self, engine: EngineT) -> EngineT:
        """Trace the jobs, messages and `calls` of `engine` from now on; return it.

        Call it before `engine.work`, `engine.worker` and `engine.blocking`.
        """
        for kind in engine.kinds.values():
            self._attempts[kind.name] = _attempt_names(kind.name, kind.queue)
        engine.trace_with(self)
        return engine

    def instrument_celery(self, app: "Celery") -> None:
        """Trace the tasks of a Celery app: calls, retries through the outbox, and runs."""
        from holdfast.telemetry.celery_tracing import connect_signals

        connect_signals(app, self)

    # -- spans ---------------------------------------------------------------------------------

    @contextmanager
    def sending(self, destination: str, count: int = 1) -> Iterator[Mapping[str, str]]:
        """Make a span around the creation of `count` jobs or messages; yield their headers."""
        attributes = _messaging("send", destination)
        if count > 1:
            attributes["messaging.batch.message_count"] = count
        with self._span(f"send {destination}", SpanKind.PRODUCER, attributes):
            yield self.current_headers()

    @contextmanager
    def calling(self, downstream: str) -> Iterator[None]:
        """Make a span around a call to a downstream."""
        name = f"call {downstream.partition(':')[0]}"
        with self._span(name, SpanKind.CLIENT, {"holdfast.downstream": downstream}):
            yield

    @contextmanager
    def processing(
        self, destination: str, attributes: Mapping[str, Any], headers: TraceHeaders
    ) -> Iterator[None]:
        """Make a span around the handling of a message that came with `headers`."""
        parent = self.parent_of(headers)
        given = {**_messaging("process", destination), **attributes}
        with self._span(f"process {destination}", SpanKind.CONSUMER, given, parent):
            yield

    def attempt(self, ctx: JobContext) -> "_AttemptSpan | None":
        """Begin the span of an attempt, in the attempt's own task; None if nothing is recorded.

        The span becomes the current one, and so does one that records nothing: what runs inside
        keeps to its decision. The context of the attempt's task ends with it.
        """
        sender = self._sender_of(trace_headers(ctx.meta))
        if self._keep_unsampled and sender is not None and not sender.trace_flags.sampled:
            attach(trace.set_span_in_context(NonRecordingSpan(sender)))
            return None
        known = self._attempts.get(ctx.kind)
        name, fixed = _attempt_names(ctx.kind, "") if known is None else known
        attributes = {
            **fixed,
            "messaging.message.id": ctx.job_id,
            "holdfast.attempt": ctx.attempt,
        }
        span = self._tracer.start_span(name, _as_parent(sender), SpanKind.CONSUMER, attributes)
        attach(trace.set_span_in_context(span))
        return None if isinstance(span, NonRecordingSpan) else _AttemptSpan(span)

    @contextmanager
    def _span(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        parent: Context | None = None,
    ) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except BaseException as error:
                _set_error(span, error)
                raise

    # -- headers -------------------------------------------------------------------------------

    def current_headers(self) -> dict[str, str]:
        """Return the headers of the trace that the caller is in; none outside of one."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier

    def parent_of(self, headers: TraceHeaders) -> Context | None:
        """Return the context that `headers` name; None where they name none."""
        return _as_parent(self._sender_of(headers))

    def _sender_of(self, headers: TraceHeaders) -> SpanContext | None:
        """Return the span that `headers` name; None if there is none, or it cannot be read."""
        if headers.traceparent is None:
            return None
        if headers.tracestate is None and headers.traceparent.startswith("00-"):
            return _span_context(headers.traceparent)
        extracted = self._propagator.extract(headers.as_dict(), _NO_CONTEXT)
        found = trace.get_current_span(extracted).get_span_context()
        return found if found.is_valid else None

    # -- guarded calls -------------------------------------------------------------------------

    def __call__(self, event: Event, /) -> None:
        """Make a span of a guarded call that has ended; note a failed attempt of it."""
        if isinstance(event, AttemptFailed):
            span = trace.get_current_span()
            if not span.is_recording():
                return
            span.add_event(
                "attempt failed",
                {
                    "holdfast.operation": event.name,
                    "holdfast.attempt": event.number,
                    "error.type": _error_type(event.error),
                },
            )
        elif isinstance(event, CallFinished):
            self._call_ended(event)

    def _call_ended(self, event: CallFinished) -> None:
        now = self._clock.wall()
        span = self._tracer.start_span(
            f"call {event.name.partition(':')[0]}",
            kind=SpanKind.CLIENT,
            attributes={
                "holdfast.operation": event.name,
                "holdfast.attempts": event.attempts,
                "holdfast.stop_reason": str(event.stop_reason),
            },
            start_time=int((now - event.total_time) * _NANOSECONDS),
        )
        if not event.ok:
            span.set_attribute("error.type", str(event.stop_reason))
            span.set_status(StatusCode.ERROR, str(event.stop_reason))
        span.end(int(now * _NANOSECONDS))


class _AttemptSpan:
    """Ends the span of an attempt; a class, since a generator takes several times as long."""

    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def __enter__(self) -> None:
        """Begin nothing: the span runs already."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the span, with the code of the error that the attempt failed with."""
        if error is not None:
            _set_error(self._span, error)
        self._span.end()


def _attempt_names(kind: str, queue: str) -> tuple[str, dict[str, Any]]:
    """Return the name of the spans of a kind's attempts, and the attributes that all have."""
    fixed = {**_messaging("process", kind), "messaging.consumer.group.name": queue}
    return f"process {kind}", fixed


def _messaging(operation: str, destination: str) -> dict[str, Any]:
    return {
        "messaging.system": "holdfast",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
    }


def _set_error(span: trace.Span, error: BaseException) -> None:
    # Neither message nor traceback: they may hold what only the job's owner may see.
    code = _error_type(error)
    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR, code)


def _error_type(error: BaseException) -> str:
    return str(error.code) if isinstance(error, HoldfastError) else type(error).__qualname__


def _as_parent(sender: SpanContext | None) -> Context | None:
    """Return the context of a span of another process."""
    if sender is None:
        return None
    return trace.set_span_in_context(NonRecordingSpan(sender), _NO_CONTEXT)


def _span_context(traceparent: str) -> SpanContext | None:
    """Return what a `traceparent` of version 00 names; twice as fast as the propagator."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None:
        return None
    trace_id, span_id, flags = match.groups()
    found = SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16)))
    return found if found.is_valid else None
