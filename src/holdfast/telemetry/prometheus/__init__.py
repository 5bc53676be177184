"""Metrics for Prometheus by its official client library: `pip install 'holdfast[prometheus]'`.

    metrics = PrometheusListener()
    app = App("shop", listeners=[metrics])

`metric_catalogue` lists every metric.
"""

try:
    import prometheus_client as _client  # noqa: F401 - only to name the extra that brings it
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise ImportError("prometheus_client is missing: pip install 'holdfast[prometheus]'") from None

from holdfast.telemetry.prometheus.exposure import RelayCollector, exposed, process_registry
from holdfast.telemetry.prometheus.listener import PrometheusListener
from holdfast.telemetry.prometheus.store_metrics import StoreMetrics

__all__ = [
    "PrometheusListener",
    "RelayCollector",
    "StoreMetrics",
    "exposed",
    "process_registry",
]
