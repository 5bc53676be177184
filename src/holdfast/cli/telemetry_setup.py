"""The metrics of a command and the port where Prometheus reads them; its traces."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.events import Listener
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.registry import known_errors
from holdfast.jobs.engine import StoreEngine
from holdfast.settings import BadSetting, Settings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def count_jobs(apps: Iterable[App]) -> "tuple[CollectorRegistry, tuple[Listener, ...]]":
    """Return the registry of this process, and the listeners that count the jobs of `apps`.

    There is no listener where an app has a `PrometheusListener` of its own.
    """
    from holdfast.telemetry.prometheus import PrometheusListener, process_registry

    found, registry = list(apps), process_registry()
    if any(isinstance(each, PrometheusListener) for app in found for each in app.listeners):
        return registry, ()
    return registry, (PrometheusListener(registry, codes=tuple(known_errors(found))),)


@contextlib.contextmanager
def exposed_metrics(
    settings: Settings, apps: Iterable[App]
) -> "Iterator[tuple[CollectorRegistry | None, tuple[Listener, ...]]]":
    """Answer Prometheus at HOLDFAST_METRICS_PORT while the block runs; without it, do nothing.

    Raises:
        BadSetting: the port cannot be listened on, or the extra is not installed.
    """
    port, host = settings.metrics_port, settings.metrics_host
    if port is None:
        yield None, ()
        return
    try:
        from holdfast.telemetry.prometheus import exposed
    except ImportError as error:
        raise BadSetting(f"HOLDFAST_METRICS_PORT: {error}") from None
    registry, listeners = count_jobs(apps)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exposed(registry, port, host))
        except OSError as error:
            line = f"HOLDFAST_METRICS_PORT: cannot listen on {host}:{port}: {error.strerror}"
            raise BadSetting(line) from None
        yield registry, listeners


def trace_jobs(settings: Settings, engine: StoreEngine) -> None:
    """Trace the jobs of `engine` by OpenTelemetry if HOLDFAST_TRACING is on.

    Raises:
        BadSetting: the extra is not installed.
    """
    if not settings.tracing:
        return
    try:
        from holdfast.telemetry.tracing import Tracing
    except ImportError as error:
        raise BadSetting(f"HOLDFAST_TRACING: {error}") from None
    Tracing().instrument(engine)
