"""The settings of the service."""

from pathlib import Path

import pytest

from holdfast import presets
from holdfast.settings import BadSetting, Settings
from holdfast_conversion.app import create
from holdfast_conversion.gateway.gateway_settings import default_children
from holdfast_conversion.service_settings import ConversionSettings


def test_without_settings_the_preset_holds():
    settings = ConversionSettings.load({})

    at_once = min(default_children(), Settings().concurrency)
    assert settings == ConversionSettings(
        files=Path(".holdfast/files"), gateway_concurrency=at_once
    )
    assert settings.retry == presets.GATEWAY


def test_every_setting_is_read_and_milliseconds_become_seconds():
    settings = ConversionSettings.load(
        {
            "HOLDFAST_DATA_DIR": "/d",
            "GATEWAY_URL": "http://g:1/",
            "GATEWAY_TIMEOUT": "1500",
            "GATEWAY_CHAOS": "1",
            "MAX_UPLOAD_BYTES": "10",
            "ARTIFACT_TTL_MS": "2500",
            "CIRCUIT_MODE": "fail_fast",
            "RETRY_MAX_ATTEMPTS": "7",
            "RETRY_BASE_DELAY": "250",
            "RETRY_MULTIPLIER": "2",
            "RETRY_MAX_DELAY": "9000",
            "CIRCUIT_THRESHOLD": "4",
            "CIRCUIT_TIMEOUT": "3000",
            "CIRCUIT_FAILURE_RATE": "0.25",
            "CIRCUIT_WINDOW_MS": "5000",
        }
    )

    assert (settings.files, settings.gateway_url) == (Path("/d/files"), "http://g:1")
    assert (settings.gateway_timeout, settings.artifact_ttl) == (1.5, 2.5)
    assert (settings.gateway_chaos, settings.max_upload_bytes) == (True, 10)
    retry, breaker = settings.retry, settings.retry.breaker
    assert settings.circuit_mode == "fail_fast"
    assert (retry.max_attempts, retry.attempt_timeout) == (7, 1.5)
    assert (retry.backoff.base, retry.backoff.multiplier, retry.backoff.cap) == (0.25, 2, 9)
    assert (breaker.consecutive_failures, breaker.failure_rate) == (4, 0.25)
    assert (breaker.window_seconds, breaker.open_for) == (5, 3)


@pytest.mark.parametrize(
    "name, value",
    [
        ("CIRCUIT_MODE", "maybe"),
        ("GATEWAY_URL", "gopher://x"),
        ("GATEWAY_TIMEOUT", "soon"),
        ("GATEWAY_CONCURRENCY", "0"),
        ("GATEWAY_TIMEOUT", "86400001"),
        ("GATEWAY_FILE_CPU_MS", "999"),
        ("GATEWAY_FILE_CPU_MS", "86400001"),
        ("RETRY_MULTIPLIER", "0.5"),
        ("CIRCUIT_FAILURE_RATE", "2"),
        ("CIRCUIT_FAILURE_RATE", "0"),
        ("RETRY_MAX_ATTEMPTS", "0"),
        ("MAX_UPLOAD_BYTES", "-1"),
    ],
)
def test_a_bad_value_is_named(name, value):
    with pytest.raises(BadSetting, match=f"^{name} must be"):
        create({name: value})


def test_the_built_in_gateway_runs_beside_the_service_unless_another_is_named(tmp_path):
    settings = {
        "HOLDFAST_DATA_DIR": str(tmp_path), "GATEWAY_CHAOS": "1", "GATEWAY_CONCURRENCY": "6",
        "GATEWAY_FILE_CPU_MS": "40000", "GATEWAY_TIMEOUT": "60000",
    }  # fmt: skip
    (sidecar,) = create(settings).sidecars()

    assert sidecar.module == "holdfast_conversion.gateway"
    assert " ".join(sidecar.arguments) == (
        "--any-port --children 6 --cpu-seconds 40 --wall-seconds 55 --chaos"
    )
    assert create({"GATEWAY_URL": "http://g:1"}).sidecars() == ()


@pytest.mark.parametrize("days, listed", [(1, 7), (30, 30)])
def test_a_job_is_listed_for_a_week_and_no_shorter_than_its_files_are_kept(tmp_path, days, listed):
    files = {"HOLDFAST_DATA_DIR": str(tmp_path), "ARTIFACT_TTL_MS": str(days * 86_400_000)}
    (kind,) = create(files).app.kinds

    kept = kind.retention
    assert kept.complete_for == kept.failed_for == kept.cancelled_for == listed * 86_400


def test_a_gateway_elsewhere_is_sent_as_many_files_as_a_worker_has_slots():
    elsewhere = {"GATEWAY_URL": "http://converter:8100", "WORKER_CONCURRENCY": "40"}
    assert ConversionSettings.load(elsewhere).gateway_concurrency == 40
    chosen = {**elsewhere, "GATEWAY_CONCURRENCY": "7"}
    assert ConversionSettings.load(chosen).gateway_concurrency == 7
