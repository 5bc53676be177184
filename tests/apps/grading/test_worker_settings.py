"""The settings of Celery workers."""

import importlib
import importlib.util
import sys

import pytest

from holdfast import presets
from holdfast.settings import BadSetting
from holdfast_grading.task_transaction import check_driver
from holdfast_grading.worker_settings import WorkerSettings

NEEDED = {"RABBITMQ_URL": "amqp://broker/", "HOLDFAST_DATABASE_URL": "sqlite:///work.db"}


def test_two_settings_are_enough_and_the_policy_is_that_of_the_preset():
    settings = WorkerSettings.load(NEEDED)
    assert (settings.broker_url, settings.database_url) == tuple(NEEDED.values())
    assert (settings.retry, settings.lease_seconds) == (presets.GRADING, 30.0)


@pytest.mark.parametrize("missing", NEEDED)
def test_a_setting_that_is_missing_is_named(missing):
    values = {name: value for name, value in NEEDED.items() if name != missing}
    with pytest.raises(BadSetting, match=f"{missing} must be set"):
        WorkerSettings.load(values)


def test_retries_breaker_and_lease_can_be_set():
    own = {
        "RETRY_MAX_ATTEMPTS": "7", "RETRY_BASE_DELAY": "100", "RETRY_MAX_DELAY": "50",
        "CIRCUIT_TIMEOUT": "1000", "LEASE_MS": "2000",
    }  # fmt: skip
    settings = WorkerSettings.load({**NEEDED, **own})
    assert (settings.retry.max_attempts, settings.lease_seconds) == (7, 2.0)
    assert (settings.retry.backoff.base, settings.retry.backoff.cap) == (0.05, 0.05)
    assert settings.retry.breaker.open_for == 1.0


def test_a_missing_driver_is_named_before_any_task_needs_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check_driver("sqlite:///work.db")
    with pytest.raises(BadSetting, match="holdfast-grading\\[celery\\]"):
        check_driver("postgresql://host/database")


def test_celery_finds_the_app_by_its_name(monkeypatch, tmp_path):
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path))
    found = importlib.import_module("holdfast_grading.celery_app")
    monkeypatch.delitem(sys.modules, "holdfast_grading.celery_app")
    (queue,) = found.app.conf.task_queues
    assert (queue.name, queue.queue_arguments["x-dead-letter-routing-key"]) == (
        "grading.request",
        "grading.dlq",
    )
