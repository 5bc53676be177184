"""How the conversion service is set up, from the environment. Times are seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast import BreakerPolicy, Exponential, RetryPolicy, presets
from holdfast.settings import Environment, Settings
from holdfast_conversion.gateway.gateway_settings import MEBIBYTE, default_children

_DAY_MS = 86_400_000
"""The longest time for one file: the built-in gateway does not start with much more."""


@dataclass(frozen=True, slots=True)
class ConversionSettings:
    """How PDFs are taken in and converted.

    Args:
        files: the folder for uploads and results.
        gateway_url: the converter; None starts the built-in one.
        gateway_timeout: how long it may take for one file.
        gateway_concurrency: how many conversions it is sent at once. The built-in one has as many
            children. Each session leaves `SPARE_CHILDREN` of them to others.
        file_cpu_seconds: computing time that the built-in one has for one file.
        gateway_chaos: whether the built-in one misbehaves on command.
        max_upload_bytes: the largest file that is taken in.
        stall_seconds: how long an upload may send nothing.
        upload_seconds: how long an upload may take in all.
        artifact_ttl: how long results, and the files of failed jobs, are kept.
        circuit_mode: `hold` or `fail_fast`.
        retry: how often and when a conversion is tried again, and the gateway's breaker.
    """

    files: Path
    gateway_url: str | None = None
    gateway_timeout: float = 120.0
    gateway_concurrency: int = field(default_factory=default_children)
    file_cpu_seconds: float = 90.0
    gateway_chaos: bool = False
    max_upload_bytes: int = 50 * MEBIBYTE
    stall_seconds: float = 20.0
    upload_seconds: float = 900.0
    artifact_ttl: float = 86_400.0
    circuit_mode: str = "hold"
    retry: RetryPolicy = presets.GATEWAY

    @classmethod
    def load(cls, values: Mapping[str, str]) -> "ConversionSettings":
        """Read them.

        Raises:
            BadSetting: a value cannot be used.
        """
        read = Environment(values)
        service = Settings.load(read)
        defaults = cls(files=service.data_dir / "files")
        gateway_url = read.address("GATEWAY_URL")
        # A worker with fewer slots than there are children could be filled by one owner; how many
        # children a gateway elsewhere has is not known.
        at_once = service.concurrency
        if gateway_url is None:
            at_once = min(defaults.gateway_concurrency, at_once)
        timeout = read.seconds(
            "GATEWAY_TIMEOUT", defaults.gateway_timeout, at_least_ms=100, at_most_ms=_DAY_MS
        )
        return replace(
            defaults,
            gateway_url=gateway_url,
            gateway_timeout=timeout,
            gateway_concurrency=read.whole("GATEWAY_CONCURRENCY", at_once, at_most=1000),
            file_cpu_seconds=read.seconds(
                "GATEWAY_FILE_CPU_MS",
                defaults.file_cpu_seconds,
                at_least_ms=1000,
                at_most_ms=_DAY_MS,
            ),
            gateway_chaos=read.choice("GATEWAY_CHAOS", "0", ("0", "1")) == "1",
            max_upload_bytes=read.whole("MAX_UPLOAD_BYTES", defaults.max_upload_bytes),
            artifact_ttl=read.seconds("ARTIFACT_TTL_MS", defaults.artifact_ttl),
            circuit_mode=read.choice("CIRCUIT_MODE", "hold", ("hold", "fail_fast")),
            retry=_retry(read, timeout),
        )


def _retry(read: Environment, timeout: float) -> RetryPolicy:
    preset = presets.GATEWAY
    backoff, breaker = preset.backoff, preset.breaker
    assert isinstance(backoff, Exponential)
    assert breaker is not None
    cap = read.seconds("RETRY_MAX_DELAY", backoff.cap)
    return replace(
        preset,
        max_attempts=read.whole("RETRY_MAX_ATTEMPTS", preset.max_attempts, at_most=1000),
        backoff=replace(
            backoff,
            base=min(cap, read.seconds("RETRY_BASE_DELAY", backoff.base)),
            multiplier=read.number("RETRY_MULTIPLIER", backoff.multiplier, at_least=1, at_most=100),
            cap=cap,
        ),
        attempt_timeout=timeout,
        breaker=_breaker(read, breaker),
    )


def _breaker(read: Environment, preset: BreakerPolicy) -> BreakerPolicy:
    assert preset.consecutive_failures is not None
    assert preset.failure_rate is not None
    assert preset.window_seconds is not None
    return replace(
        preset,
        consecutive_failures=read.whole(
            "CIRCUIT_THRESHOLD", preset.consecutive_failures, at_most=1_000_000
        ),
        failure_rate=read.number(
            "CIRCUIT_FAILURE_RATE", preset.failure_rate, at_least=0.01, at_most=1
        ),
        window_seconds=read.seconds("CIRCUIT_WINDOW_MS", preset.window_seconds),
        open_for=read.seconds("CIRCUIT_TIMEOUT", preset.open_for),
    )
