"""What a `PrometheusListener` counts of jobs and of guarded calls."""

import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry

from holdfast import (
    App,
    BreakerPolicy,
    Exponential,
    JobContext,
    Permanent,
    RetryLater,
    RetryPolicy,
    RetryService,
    StopReason,
)
from holdfast.errors import ErrorCode
from holdfast.events import AttemptFailed, Event
from holdfast.jobs.job_events import (
    AttemptAbandoned,
    JobsRescued,
    JobsTimedOut,
    LeaseLost,
    StoreLost,
    WorkerStarted,
    WorkerStopped,
    WriteRefused,
)
from holdfast.jobs.store_values import Refusal
from holdfast.telemetry.metric_catalogue import CALL_METRICS, JOB_METRICS
from holdfast.telemetry.prometheus import PrometheusListener
from holdfast.testing import VirtualClock, virtual_engine

app = App("shop")


@app.job(retry=RetryPolicy(max_attempts=2, backoff=Exponential(base=1, jitter=0)))
async def order(ctx: JobContext, how: str) -> str:
    if how == "permanent":
        raise Permanent("GW_4XX", "refused")
    if how == "own":
        raise Permanent("CARD_4711", "refused")
    if how == "transient" or (how == "once" and ctx.attempt == 1):
        raise RetryLater(1, code="GW_5XX")
    return how


@app.job()
async def copy(ctx: JobContext, how: str) -> None:
    async with ctx.transaction():
        pass


@app.job(dead_letters=False)
async def notify(ctx: JobContext, how: str) -> None:
    raise Permanent("GW_4XX", "refused")


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return PrometheusListener(registry)


def worked(metrics, *ways, job=order):
    with virtual_engine([app], listeners=[metrics]).blocking() as engine:
        for how in ways:
            engine.enqueue(job, how)
        engine.run_until_idle()


def attempts(registry, outcome, kind="shop.order"):
    return registry.get_sample_value("holdfast_attempts_total", {"kind": kind, "outcome": outcome})


def test_attempts_are_counted_by_kind_and_outcome(registry, metrics):
    worked(metrics, "fine", "fine", "once", "permanent")

    assert attempts(registry, "complete") == 3
    assert attempts(registry, "retry") == 1
    assert attempts(registry, "failed") == 1
    claims = {"queue": "default", "kind": "shop.order"}
    assert registry.get_sample_value("holdfast_claims_total", claims) == 5


def test_an_attempt_whose_transaction_was_committed_is_counted_once(registry, metrics):
    worked(metrics, "fine", job=copy)

    assert attempts(registry, "complete", "shop.copy") == 1


def test_a_job_that_failed_for_good_is_counted_by_the_code_of_its_last_error(registry, metrics):
    worked(metrics, "transient", "permanent", "once")

    failed = "jobs_failed_total"
    assert registry.get_sample_value(failed, {"error_code": "GW_5XX"}) == 1
    assert registry.get_sample_value(failed, {"error_code": "GW_4XX"}) == 1
    errors = {"kind": "shop.order", "error_code": "GW_5XX"}
    assert registry.get_sample_value("holdfast_attempt_errors_total", errors) == 3


def test_a_failure_of_a_kind_without_dead_letters_is_not_counted_as_one(registry, metrics):
    worked(metrics, "fine", job=notify)

    assert attempts(registry, "failed", "shop.notify") == 1
    assert registry.get_sample_value("jobs_failed_total", {"error_code": "GW_4XX"}) == 0


def test_a_code_that_is_not_declared_is_not_shown(registry, metrics):
    worked(metrics, "own")

    assert registry.get_sample_value("jobs_failed_total", {"error_code": "OTHER"}) == 1
    assert registry.get_sample_value("jobs_failed_total", {"error_code": "CARD_4711"}) is None


def test_a_code_of_an_app_is_shown_where_it_is_named(registry):
    worked(PrometheusListener(registry, codes=["CARD_4711"]), "own")

    assert registry.get_sample_value("jobs_failed_total", {"error_code": "CARD_4711"}) == 1


def test_run_and_wait_are_histograms(registry, metrics):
    worked(metrics, "fine", "once")

    kind = {"kind": "shop.order"}
    assert registry.get_sample_value("job_processing_duration_seconds_count", kind) == 3
    # The second attempt of a job does not count as waiting: its delay was planned.
    assert registry.get_sample_value("holdfast_job_wait_seconds_count", kind) == 2
    whole = {**kind, "le": "+Inf"}
    assert registry.get_sample_value("job_processing_duration_seconds_bucket", whole) == 3


@pytest.mark.parametrize(
    "event, name, labels, count",
    [
        (JobsTimedOut("m", ("a", "b")), "jobs_failed_total", {"error_code": "TIMEOUT"}, 2),
        (
            JobsRescued("m", ("a",), ("b",), ()),
            "jobs_failed_total",
            {"error_code": "LEASE_LOST"},
            1,
        ),
        (
            WriteRefused("k", "a", 1, Refusal.STALE),
            "holdfast_writes_refused_total",
            {"reason": "stale"},
            1,
        ),
        (LeaseLost("k", "a", 1, certain=True), "holdfast_leases_lost_total", {}, 1),
        (AttemptAbandoned("k", "a", 1), "holdfast_attempts_abandoned_total", {"kind": "k"}, 1),
        (StoreLost("w", "gone"), "holdfast_store_outages_total", {}, 1),
        (WorkerStarted("w", 10), "holdfast_worker_slots", {}, 10),
    ],
)
def test_rare_events_are_counted(registry, metrics, event, name, labels, count):
    metrics(event)

    assert registry.get_sample_value(name, labels) == count


def test_a_worker_that_stopped_has_no_slots(registry, metrics):
    metrics(WorkerStarted("w", 10))
    metrics(WorkerStopped("w", 0))

    assert registry.get_sample_value("holdfast_worker_slots") == 0


def test_other_events_are_ignored(registry, metrics):
    before = list(registry.collect())

    metrics(Event("anything"))
    metrics(JobsRescued("m", ("a",), (), ()))

    assert list(registry.collect()) == before


def test_every_metric_of_the_catalogue_is_collected_and_no_other(registry, metrics):
    names = {
        f"{each.name}_total" if each.type == "counter" else each.name for each in registry.collect()
    }

    assert names == {*JOB_METRICS, *CALL_METRICS}


# -- guarded calls ---------------------------------------------------------------------------------


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def service(metrics, clock):
    return metrics.watch(RetryService(clock=clock, listeners=[metrics]))


POLICY = RetryPolicy(
    max_attempts=3,
    backoff=Exponential(base=1, jitter=0),
    breaker=BreakerPolicy(consecutive_failures=4, open_for=30, trial_calls=1),
)


def failing(times, error=ConnectionError):
    """Return an operation that fails so often, then succeeds."""
    answers = iter([error()] * times)

    def operation():
        for each in answers:
            raise each

    return operation


def test_every_field_of_retry_metrics_is_shown_per_operation(registry, service, clock):
    service.execute_sync(failing(0), POLICY, "mill")
    service.execute_sync(failing(1), POLICY, "mill")
    service.execute_sync(failing(3), POLICY, "mill")
    service.execute_sync(failing(1), POLICY, "mill")  # opens
    clock.advance(10)

    def value(name, **labels):
        return registry.get_sample_value(name, {"operation": "mill", **labels})

    known = service.metrics("mill")
    assert value("holdfast_calls_total") == known.total_operations == 4
    assert value("holdfast_calls_successful_total") == known.successful_operations == 2
    assert value("holdfast_call_success_ratio") == known.success_rate == 0.5
    assert value("holdfast_call_retries_total") == known.total_retries == 3
    assert value("holdfast_call_retries_average") == known.avg_retries_per_operation
    assert value("holdfast_calls_exhausted_total") == known.max_retries_reached == 1
    assert value("holdfast_circuit_trips_total") == known.circuit_breaker_trips == 1
    assert value("holdfast_circuit_recoveries_total") == known.circuit_breaker_recoveries == 0
    assert value("holdfast_circuit_open_seconds_total") == known.time_in_open_state == 10
    assert value("holdfast_call_latency_seconds", quantile="0.5") == known.p50_latency
    assert value("holdfast_call_latency_seconds", quantile="0.95") == known.p95_latency
    assert value("holdfast_call_latency_seconds", quantile="0.99") == known.p99_latency
    assert value("holdfast_call_errors_total", category="transient") == known.transient_errors == 5
    assert value("holdfast_call_errors_total", category="permanent") == known.permanent_errors == 0
    assert value("holdfast_calls_by_retries_total", retries="2") == known.retry_distribution[2] == 1
    assert value("holdfast_circuit_state", state="OPEN") == 1
    assert value("holdfast_circuit_state", state="CLOSED") == 0


def test_calls_with_and_without_retries_have_separate_durations(registry, service):
    service.execute_sync(failing(0), POLICY, "mill")
    service.execute_sync(failing(1), POLICY, "mill")

    name = "holdfast_call_duration_seconds"
    retried, plain = ({"operation": "mill", "retried": each} for each in ("yes", "no"))
    assert registry.get_sample_value(f"{name}_count", plain) == 1
    assert registry.get_sample_value(f"{name}_sum", retried) == 1  # the wait before its retry
    assert registry.get_sample_value(f"{name}_bucket", {**retried, "le": "0.5"}) == 0
    assert registry.get_sample_value(f"{name}_bucket", {**retried, "le": "1.0"}) == 1


def test_a_refused_call_counts_by_what_refused_it_and_has_no_duration(registry, service):
    service.execute_sync(failing(0), POLICY, "mill")
    service.hold_circuit("mill")
    service.execute_sync(failing(0), POLICY, "mill")

    refused = {"operation": "mill", "reason": StopReason.BREAKER}
    assert registry.get_sample_value("holdfast_calls_refused_total", refused) == 1
    plain = {"operation": "mill", "retried": "no"}
    assert registry.get_sample_value("holdfast_call_duration_seconds_count", plain) == 1


def test_operations_with_keys_are_summed_under_their_base_name(registry, service):
    for key in ("a.example", "b.example"):
        service.execute_sync(failing(0), POLICY, f"host:{key}")

    assert registry.get_sample_value("holdfast_calls_total", {"operation": "host"}) == 2
    state = {"operation": "host", "state": "CLOSED"}
    assert registry.get_sample_value("holdfast_circuit_state", state) == 2
    for metric in registry.collect():
        assert "example" not in str(metric)


def test_a_service_that_is_gone_is_not_shown(registry, metrics):
    metrics.watch(RetryService()).execute_sync(failing(0), POLICY, "mill")

    assert registry.get_sample_value("holdfast_calls_total", {"operation": "mill"}) is None


def test_a_failed_attempt_alone_changes_nothing(registry, metrics):
    error = ConnectionError()
    metrics(AttemptFailed("mill", 1, error, ErrorCode.UNKNOWN, 1.0, None))

    assert registry.get_sample_value("holdfast_calls_total", {"operation": "mill"}) is None


def test_without_the_client_library_the_error_names_the_extra():
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "try:\n    import holdfast.telemetry.prometheus\n"
        "except ImportError as error:\n    print(error)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "pip install 'holdfast[prometheus]'" in done.stdout
