"""Downstream records and call reports for tests."""

from holdfast.jobs.downstreams.record import (
    CallReport,
    DownstreamRecord,
    DownstreamSettings,
    Verdict,
    judge,
)
from holdfast.resilience.breaker.transitions import Permit
from holdfast.resilience.policy import BreakerPolicy

POLICY = BreakerPolicy(consecutive_failures=2, open_for=30, trial_calls=2)
NOW = 1000.0


def record(**settings):
    settings.setdefault("breaker", POLICY)
    settings.setdefault("ramp_seconds", 0.0)
    return DownstreamRecord(DownstreamSettings("gateway", **settings))


def report(verdict, generation=0, trial=None, code=None):
    return CallReport("gateway", Permit(generation, trial), verdict, code)


def opened(at=NOW, **settings):
    failures = [report(Verdict.FAILURE)] * 2
    return judge(record(**settings), failures, at)


def admissions(granted):
    return [admission for admission, _ in granted.permits]
