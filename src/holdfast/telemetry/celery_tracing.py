"""Spans around the tasks of a Celery app, by Celery's signals."""

from typing import TYPE_CHECKING, Any

from celery import Celery, signals

from holdfast.trace_port import TRACE_HEADERS, TraceHeaders

if TYPE_CHECKING:
    from holdfast.telemetry.tracing import Tracing

_SPAN = "holdfast_span"


def connect_signals(app: Celery, tracing: "Tracing") -> None:
    """Trace the calls and runs of the tasks of `app`.

    A reliable task is published by a relay: its headers are stored with the message.
    """
    tasks = _TaskSpans(app, tracing)
    uid = f"holdfast tracing {id(app)}"
    signals.before_task_publish.connect(tasks.sending, weak=False, dispatch_uid=uid)
    signals.task_prerun.connect(tasks.begin, weak=False, dispatch_uid=uid)
    signals.task_postrun.connect(tasks.end, weak=False, dispatch_uid=uid)


class _TaskSpans:
    def __init__(self, app: Celery, tracing: "Tracing") -> None:
        self._app = app
        self._tracing = tracing

    def sending(self, sender: str, headers: dict[str, Any], **_: Any) -> None:
        """Give a message the context of its sender."""
        if sender in self._app.tasks and TRACE_HEADERS[0] not in headers:
            with self._tracing.sending(sender) as found:
                headers.update(found)

    def begin(self, task: Any, task_id: str, **_: Any) -> None:
        """Begin the span of a run."""
        if task.app is not self._app:
            return
        given = {**(task.request.headers or {})}
        for name in TRACE_HEADERS:
            given.setdefault(name, getattr(task.request, name, None))
        headers = TraceHeaders(*(given.get(name) for name in TRACE_HEADERS))
        attributes = {
            "messaging.message.id": task_id,
            "holdfast.attempt": task.request.retries + 1,
        }
        span = self._tracing.processing(task.name, attributes, headers)
        span.__enter__()
        setattr(task.request, _SPAN, span)

    def end(self, task: Any, state: str | None, retval: Any, **_: Any) -> None:
        """End the span of a run."""
        span = getattr(task.request, _SPAN, None)
        if span is None:
            return
        delattr(task.request, _SPAN)
        if state == "FAILURE" and isinstance(retval, BaseException):
            span.__exit__(type(retval), retval, retval.__traceback__)
        else:
            span.__exit__(None, None, None)
