"""`PrometheusListener`: counts the events of workers and of guarded calls."""

from collections.abc import Collection, Iterator

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from holdfast.errors import ERRORS
from holdfast.events import CallFinished, Event
from holdfast.jobs.job_events import TickStored
from holdfast.resilience.service import RetryService
from holdfast.telemetry.prometheus.call_metrics import CallMetrics
from holdfast.telemetry.prometheus.job_metrics import JobMetrics


class PrometheusListener(Collector):
    """A listener for engines, apps and retry services, and a collector of Prometheus' client.

    Args:
        registry: where it is registered; None: nowhere.
        codes: the error codes that are shown by name; others are `OTHER`, since anything may stand
            in them. By default the library's; add those that your apps declare.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = REGISTRY,
        *,
        codes: Collection[str] = tuple(ERRORS),
    ) -> None:
        self._jobs = JobMetrics(codes)
        self._calls = CallMetrics()
        if registry is not None:
            registry.register(self)

    def __call__(self, event: Event, /) -> None:
        """Count an event."""
        if isinstance(event, CallFinished):
            self._calls.take(event)
        else:
            self._jobs.take(event)

    def tick_stored(self, tick: TickStored, /) -> None:
        """Count the claims and reports of one tick of a worker."""
        self._jobs.tick_stored(tick)

    def watch(self, service: RetryService) -> RetryService:
        """Show the figures that `service` keeps of its operations; return it.

        They are read when Prometheus scrapes, and cost nothing at a call. With this listener in
        `RetryService(listeners=)` there are durations with and without retries as well.
        """
        self._calls.watch(service)
        return service

    def collect(self) -> Iterator[Metric]:
        """Yield the families of samples; called for every scrape."""
        yield from self._jobs.collect()
        yield from self._calls.collect()
