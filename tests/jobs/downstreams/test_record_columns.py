"""Records are decoded from their rows as they were."""

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.record import (
    DownstreamRecord,
    DownstreamSettings,
    HoldMode,
    TrialRetry,
)
from holdfast.jobs.downstreams.record_columns import (
    StoredDownstream,
    dump_downstream,
    dump_settings,
    load_downstream,
    load_settings,
)
from holdfast.resilience.breaker.transitions import Cause, Circuit, CircuitState, Trial
from holdfast.resilience.policy import BreakerPolicy, RateLimit

times = st.floats(0, 4e9)
circuits = st.builds(
    Circuit,
    state=st.sampled_from(CircuitState),
    generation=st.integers(0, 1000),
    streak=st.integers(0, 1000),
    opened_at=st.none() | times,
    open_until=st.none() | times,
    successes=st.integers(0, 5),
    trials=st.lists(
        st.builds(Trial, st.integers(1, 9), times, st.booleans()),
        max_size=3,
        unique_by=lambda trial: trial.number,
    ).map(tuple),
    trials_started=st.integers(0, 9),
    cause=st.none() | st.sampled_from(Cause),
)
settings = st.builds(
    DownstreamSettings,
    name=st.text(min_size=1),
    breaker=st.none()
    | st.builds(
        BreakerPolicy,
        consecutive_failures=st.integers(1, 9),
        failure_rate=st.floats(0.01, 1),
        rate_rule=st.sampled_from(["above", "at_least"]),
        window_seconds=st.none() | st.floats(1, 600),
        trial_timeout=st.none() | st.floats(1, 9),
    ),
    mode=st.sampled_from(HoldMode),
    concurrency=st.none() | st.integers(1, 99),
    rate=st.none() | st.builds(RateLimit, per_minute=st.integers(1, 99)),
    ramp_seconds=st.floats(0, 99),
    unproven_concurrency=st.none() | st.integers(1, 9),
)


@given(circuits, settings, st.integers(0, 10**9), st.none() | st.sampled_from(ErrorCode))
def test_a_record_is_decoded_as_it_was(circuit, its_settings, version, last_error):
    window = ((1, 2, 1), (2, 5, 0))
    record = DownstreamRecord(
        its_settings, circuit, window, 12.5, 3, 99.25, version, last_error, 4,
        (TrialRetry("j1", 7, 12.5), TrialRetry("j2", 1, 99.0, 98.5)), version % 2 == 1,
    )  # fmt: skip
    row = dump_downstream(record)
    assert load_downstream(row) == record
    assert (row.state, row.open_until) == (circuit.state, circuit.open_until)


def test_every_field_of_a_circuit_is_stored():
    ours = Circuit(CircuitState.HALF_OPEN, 2, 3, 4.0, 5.0, 1, (Trial(1, 2.0),), 1, Cause.COOLED)
    plain = Circuit()
    assert all(getattr(ours, field.name) != getattr(plain, field.name) for field in fields(Circuit))
    record = DownstreamRecord(DownstreamSettings("gateway"), ours)
    assert load_downstream(dump_downstream(record)).circuit == ours


def test_excluded_error_types_are_not_stored():
    policy = BreakerPolicy(exclude=(ValueError,))
    text = dump_settings(DownstreamSettings("gateway", policy))
    assert load_settings("gateway", text).breaker == replace(policy, exclude=())


def test_settings_of_the_release_without_a_rate_rule_are_read_and_it_reads_ours():
    policy = BreakerPolicy(failure_rate=0.5, rate_rule="at_least")
    data = json.loads(dump_settings(DownstreamSettings("gateway", policy)))
    assert "rate_rule" not in data["breaker"]
    del data["rate_rule"]
    assert load_settings("gateway", json.dumps(data)).breaker == replace(policy, rate_rule="above")


def test_a_record_of_the_release_without_trial_retries_is_read_and_it_reads_ours():
    row = dump_downstream(DownstreamRecord(DownstreamSettings("gateway"), failed_rounds=2))
    data = json.loads(row.record)
    assert "well_at" in data
    for key in ("failed_rounds", "trial_retries", "outside_trials"):
        del data[key]
    old = load_downstream(replace(row, record=json.dumps(data)))
    assert (old.failed_rounds, old.trial_retries) == (0, ())


def test_a_row_has_the_columns_that_a_claim_uses():
    assert [field.name for field in fields(StoredDownstream)] == [
        "name",
        "version",
        "state",
        "generation",
        "open_until",
        "settings",
        "record",
        "parent",
        "used_at",
    ]


@pytest.mark.parametrize(
    "rate, usual",
    [
        (RateLimit(per_minute=3, per_day=9), [3, 9]),
        (RateLimit(per_second=2), None),
        (RateLimit(per_second=2, per_minute=3, spread=True), [3, None]),
        (RateLimit(per_day=9, spread=True), [None, 9]),
    ],
)
def test_a_rate_is_read_back_and_the_release_before_reads_its_part(rate, usual):
    text = dump_settings(DownstreamSettings("gateway", rate=rate))
    assert json.loads(text)["rate"] == usual
    assert load_settings("gateway", text).rate == rate
