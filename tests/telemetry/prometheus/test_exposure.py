"""Metrics of one process over HTTP."""

import httpx
import pytest
from prometheus_client import REGISTRY, Counter

from holdfast.telemetry.prometheus import (
    PrometheusListener,
    RelayCollector,
    exposed,
    process_registry,
)


@pytest.fixture
def parcels():
    counter = Counter("telemetry_test_parcels", "Parcels.")
    yield counter
    REGISTRY.unregister(counter)


def test_a_process_shows_its_own_metrics_and_those_of_its_handlers(parcels):
    registry = process_registry()
    PrometheusListener(registry)
    parcels.inc()

    with exposed(registry, 0) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        text = httpx.get(url, trust_env=False).text
    assert "holdfast_worker_slots 0.0" in text
    assert "telemetry_test_parcels_total 1.0" in text
    assert "process_cpu_seconds_total" in text
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_a_relay_shows_what_it_has_published():
    class Relay:
        published = 7

    registry = process_registry()
    registry.register(RelayCollector(Relay()))

    assert registry.get_sample_value("holdfast_relay_published_total") == 7
