"""Declared downstreams: defaults from the policy, names made by a key, refusals."""

import pytest

from holdfast.jobs.declare.declared_downstream import FROM_POLICY, Downstream
from holdfast.jobs.downstreams.record import DownstreamSettings, HoldMode
from holdfast.resilience import presets
from holdfast.resilience.policy import BreakerPolicy, ConcurrencyLimit, RateLimit, RetryPolicy

POLICY = RetryPolicy(
    breaker=BreakerPolicy(open_for=7),
    rate=RateLimit(per_minute=9),
    concurrency=ConcurrencyLimit(4),
)


def test_unset_values_are_taken_from_the_retry_policy():
    settings = Downstream("gateway").under(POLICY).settings()
    assert settings == DownstreamSettings(
        "gateway", breaker=BreakerPolicy(open_for=7), concurrency=4, rate=RateLimit(per_minute=9)
    )


def test_set_values_override_the_retry_policy():
    own = Downstream(
        "gateway", breaker=BreakerPolicy(open_for=1), concurrency=2, rate=RateLimit(per_day=5)
    )
    settings = own.under(POLICY).settings()
    assert settings.breaker == BreakerPolicy(open_for=1)
    assert settings.concurrency == 2
    assert settings.rate == RateLimit(per_day=5)


def test_without_any_setting_the_default_breaker_is_used():
    assert Downstream("gateway").breaker is FROM_POLICY
    settings = Downstream("gateway").under(RetryPolicy()).settings()
    assert settings == DownstreamSettings("gateway", breaker=BreakerPolicy())


def test_none_never_opens_even_where_the_policy_has_a_breaker():
    assert Downstream("gateway", breaker=None).under(POLICY).settings().breaker is None


def test_filling_in_defaults_keeps_all_other_values():
    declared = Downstream(
        "host",
        mode="fail_fast",
        ramp_seconds=0,
        key=lambda args: args,
        probe=lambda key: True,
        probe_every=3,
    )
    complete = declared.under(RetryPolicy())
    assert complete.mode is HoldMode.FAIL_FAST
    assert (complete.ramp_seconds, complete.probe_every) == (0, 3)
    assert (complete.key, complete.probe) == (declared.key, declared.probe)


def test_the_gateways_preset_opens_by_streak_and_by_rate():
    breaker = Downstream("gateway").under(presets.GATEWAY).settings().breaker
    assert breaker is not None
    assert (breaker.consecutive_failures, breaker.failure_rate) == (5, 0.5)


def test_each_key_has_its_own_downstream():
    hosts = Downstream("host", key=lambda args: args["host"])
    assert hosts.name_for({"host": "example.org"}) == "host:example.org"
    settings = hosts.settings("host:example.org")
    assert (settings.name, settings.parent) == ("host:example.org", "host")
    assert [each.settings().parent for each in (hosts, Downstream("host:eu"))] == [None, None]
    assert hosts.key_of("host:example.org") == "example.org"
    assert hosts.covers("host:example.org")
    assert not hosts.covers("host")
    assert not hosts.covers("hostile:example.org")


def test_without_a_key_the_arguments_do_not_matter():
    gateway = Downstream("gateway")
    assert gateway.name_for(object()) == "gateway"
    assert gateway.covers("gateway")
    assert not gateway.covers("gateway:other")
    assert gateway.key_of("gateway:other") is None


@pytest.mark.parametrize("key", [None, "", 3, " padded", "line\nbreak", "x" * 201])
def test_an_invalid_key_is_refused(key):
    with pytest.raises((TypeError, ValueError), match="key must"):
        Downstream("host", key=lambda args: key).name_for({})


@pytest.mark.parametrize(
    "options, message",
    [
        ({"name": ""}, "name must not be empty"),
        ({"name": 3}, "name must be a string, got 3"),
        ({"name": " gateway"}, "without spaces around it"),
        ({"breaker": 5}, "breaker must be a BreakerPolicy, got 5"),
        ({"mode": "wait"}, "mode must be 'hold' or 'fail_fast', got 'wait'"),
        ({"concurrency": 0}, "concurrency must be at least 1, got 0"),
        ({"rate": 100}, "rate must be a RateLimit, got 100"),
        ({"unproven_concurrency": 0}, "unproven_concurrency must be at least 1, got 0"),
        ({"unproven_concurrency": 1, "breaker": None}, "unproven_concurrency needs a breaker"),
        ({"ramp_seconds": -1}, "ramp_seconds must be at least 0, got -1"),
        ({"key": "host"}, "key must be callable, got 'host'"),
        ({"probe": "http"}, "probe must be callable, got 'http'"),
        ({"probe_every": 0}, "probe_every must be above 0, got 0"),
    ],
)
def test_a_bad_declaration_is_refused_with_field_and_value(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Downstream(**{"name": "gateway", **options})
