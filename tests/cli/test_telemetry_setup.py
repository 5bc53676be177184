"""The metrics of commands."""

import socket
import sys
from types import SimpleNamespace

import httpx
import pytest
from tests.support.modules import forget_modules
from tests.support.programs import free_port

from holdfast import App
from holdfast.cli.telemetry_setup import count_jobs, exposed_metrics, trace_jobs
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


@pytest.mark.parametrize("tracing", [True, False])
def test_jobs_are_traced_if_the_setting_is_on(tracing):
    traced = []

    engine = SimpleNamespace(kinds={}, trace_with=traced.append)

    trace_jobs(Settings(tracing=tracing), engine)

    assert len(traced) == tracing


def _enter(settings):
    with exposed_metrics(settings, []):
        pass


@pytest.mark.parametrize(
    "module, name, use",
    [
        ("opentelemetry", "HOLDFAST_TRACING", lambda it: trace_jobs(it, None)),
        ("prometheus_client", "HOLDFAST_METRICS_PORT", _enter),
    ],
)
def test_a_missing_extra_is_named_with_its_setting(monkeypatch, module, name, use):
    forget_modules(monkeypatch, "holdfast.telemetry.", module)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(BadSetting, match=f"{name}: .*pip install 'holdfast"):
        use(Settings(tracing=True, metrics_port=1))
