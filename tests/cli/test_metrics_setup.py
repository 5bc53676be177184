"""The metrics of commands."""

import socket

import httpx
import pytest
from tests.support.programs import free_port

from holdfast import App
from holdfast.cli.metrics_setup import count_jobs, exposed_metrics
from holdfast.settings import BadSetting, Settings
from holdfast.telemetry.prometheus import PrometheusListener


def test_without_a_port_nothing_is_counted():
    with exposed_metrics(Settings(), []) as (registry, listeners):
        assert registry is None
        assert listeners == ()


def test_a_worker_answers_prometheus_at_its_port():
    port = free_port()
    with exposed_metrics(Settings(metrics_port=port), [App("shop")]) as (_, listeners):
        assert len(listeners) == 1
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    assert "holdfast_worker_slots" in text


def test_a_port_that_is_taken_is_named_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = Settings(metrics_port=port)
        line = f"HOLDFAST_METRICS_PORT.*127.0.0.1:{port}"
        with pytest.raises(BadSetting, match=line), exposed_metrics(settings, []):
            pytest.fail("it listens on a port that is taken")


def test_an_app_that_counts_by_itself_is_not_counted_twice():
    app = App("shop", listeners=[PrometheusListener(None)])

    assert count_jobs([app])[1] == ()
