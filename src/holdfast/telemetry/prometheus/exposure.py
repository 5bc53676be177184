"""Serve the metrics of one process to Prometheus, for workers and relays."""

import contextlib
from collections.abc import Iterator

from prometheus_client import REGISTRY, CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from holdfast.outbox import Relay
from holdfast.telemetry.prometheus.families import family


def process_registry() -> CollectorRegistry:
    """Return a registry that shows all of the client's default registry too.

    That one has CPU time and memory of the process, and the metrics that handlers declare.
    """
    registry = CollectorRegistry()
    registry.register(REGISTRY)
    return registry


@contextlib.contextmanager
def exposed(registry: CollectorRegistry, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Answer Prometheus on `port` of `host` in a thread while the block runs; yield the port.

    Raises:
        OSError: the port cannot be listened on.
    """
    server, thread = start_http_server(port, host, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class RelayCollector(Collector):
    """Show what a relay has published."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def collect(self) -> Iterator[Metric]:
        """Yield the family of its counter."""
        yield family("holdfast_relay_published_total", [((), self._relay.published)])
