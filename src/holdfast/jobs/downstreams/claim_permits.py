"""Which jobs of a downstream a claim may take: permits under its breaker and limits.

Pure functions, called by every store inside its claim's transaction. Times are epoch seconds of the
store's clock.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.jobs.downstreams.record import (
    Admission,
    DownstreamRecord,
    HoldMode,
    RefusedPermit,
)
from holdfast.resilience.breaker import transitions
from holdfast.resilience.breaker.transitions import Circuit, CircuitState, Permit, Trial
from holdfast.resilience.policy import BreakerPolicy, RateLimit

_SLICES = {1.0: 0.05, 60.0: 1.0, 86_400.0: 900.0}
"""The width of the slices in which starts are counted, by the period of the limit, in seconds."""
_SHORTEST_SPREAD = 0.05
"""Seconds: starts closer to each other than that are spread as small groups."""
_SPREAD_SLICES = 10
"""Slices of a gap: starts come up to a tenth of it later than they might."""
_RAMP_STEPS = 8
"""How often the number of running jobs doubles during the ramp after closing."""


@dataclass(frozen=True, slots=True)
class RateSpent:
    """Jobs started in one time slice, which begins at `bucket` times `width` seconds."""

    width: float
    bucket: int
    spent: int


@dataclass(frozen=True, slots=True)
class Grant:
    """The result of `grant`: the record to store, and one permit per job."""

    record: DownstreamRecord
    permits: tuple[tuple[Admission, Permit], ...] = ()


def grant(
    record: DownstreamRecord,
    wanted: int,
    now: float,
    *,
    running: int = 0,
    spent: Iterable[RateSpent] = (),
    trial_leases: Mapping[int, float] | None = None,
) -> Grant:
    """Grant up to `wanted` permits at `now`.

    Args:
        running: jobs of this downstream that run now, fleet-wide.
        spent: jobs started in the slices of its rate limits, see `rate_slices`.
        trial_leases: lease expiry of each running trial of the circuit's present generation, by
            trial number; None if unknown. A trial's permit lasts at least as long as its job's
            lease, and ends with the attempt: also if that was ended by a rescue or a deadline.
    """
    if record.holds_at(now):
        return Grant(record)
    circuit, settings = record.circuit, record.settings
    remaining = min(wanted, rate_remaining(settings.rate, spent, now))
    if settings.concurrency is not None:
        remaining = min(remaining, settings.concurrency - running)
    state = transitions.state_at(circuit, now)
    policy = settings.breaker
    if policy is None or state is CircuitState.CLOSED:
        ramp = _ramp_limit(record, now)
        if ramp is not None:
            remaining = min(remaining, ramp - running)
        if settings.unproven_concurrency is not None and not record.proven:
            remaining = min(remaining, settings.unproven_concurrency - running)
        granted = ((Admission.CALL, Permit(circuit.generation)),) * max(0, remaining)
        return Grant(record, granted)
    trials = _grant_trials(record, policy, remaining, now, trial_leases)
    if settings.mode is HoldMode.HOLD:
        return trials
    refusals = wanted - len(trials.permits)
    permit = RefusedPermit(trials.record.circuit.generation, code=record.last_error)
    return Grant(trials.record, trials.permits + ((Admission.REFUSED, permit),) * refusals)


def grant_call(record: DownstreamRecord, now: float, lease_seconds: float) -> Grant:
    """Grant a permit for one call outside of jobs at `now`, whatever the limits of jobs are.

    Args:
        lease_seconds: that a trial keeps its place at least; longer if `extend_call` says so.
    """
    granted = grant(record, 1, now)
    permits = tuple(each for each in granted.permits if each[0] is not Admission.REFUSED)
    kept = granted.record
    for _, permit in permits:
        kept = extend_call(kept, permit, now, lease_seconds)
    return Grant(kept, permits)


def extend_call(
    record: DownstreamRecord, permit: Permit, now: float, lease_seconds: float
) -> DownstreamRecord:
    """Let the trial of a call outside of jobs keep its place for `lease_seconds` from `now`."""
    circuit = transitions.extend_trial(record.circuit, permit, now + lease_seconds, outside=True)
    return record if circuit is record.circuit else replace(record, circuit=circuit)


def _grant_trials(
    record: DownstreamRecord,
    policy: BreakerPolicy,
    remaining: int,
    now: float,
    trial_leases: Mapping[int, float] | None,
) -> Grant:
    circuit = record.circuit
    if trial_leases is not None:
        circuit = _running_trials(circuit, trial_leases)
    permits: list[tuple[Admission, Permit]] = []
    while len(permits) < remaining:
        circuit, permit = transitions.admit(circuit, policy, now)
        if permit is None:
            break
        permits.append((Admission.TRIAL, permit))
    if not permits:
        return Grant(record)
    return Grant(replace(record, circuit=circuit), tuple(permits))


def _running_trials(circuit: Circuit, trial_leases: Mapping[int, float]) -> Circuit:
    """Return `circuit` with those of its trials that still run, as long as their leases.

    Calls outside of jobs keep their own times.
    """
    kept = tuple(
        trial
        if trial.outside
        else Trial(trial.number, max(trial.expires_at, trial_leases[trial.number]))
        for trial in circuit.trials
        if trial.outside or trial.number in trial_leases
    )
    return circuit if kept == circuit.trials else replace(circuit, trials=kept)


def _ramp_limit(record: DownstreamRecord, now: float) -> int | None:
    policy, ramp = record.settings.breaker, record.settings.ramp_seconds
    if policy is None or record.closed_at is None or ramp <= 0:
        return None
    elapsed = now - record.closed_at
    if elapsed >= ramp:
        return None
    return int(policy.trial_calls * 2 ** (1 + max(0.0, elapsed) * _RAMP_STEPS // ramp))


def rate_slices(rate: RateLimit | None) -> tuple[tuple[float, float, int], ...]:
    """Return (period, slice width, limit) for each limit of `rate`; times in seconds.

    Starts that are to be spread are a limit on a short period: one start in each gap, or a few
    where gaps are shorter than a claim is worth.
    """
    if rate is None:
        return ()
    slices = [(period, _SLICES[period], count) for period, count in rate.periods]
    if rate.spread:
        period = max(rate.gap, _SHORTEST_SPREAD)
        slices.append((period, period / _SPREAD_SLICES, max(1, round(period / rate.gap))))
    return tuple(slices)


def rate_widths(rate: RateLimit | None) -> Mapping[float, float]:
    """Return the widths of the slices in which starts are counted, each with its longest period."""
    widths: dict[float, float] = {}
    for period, width, _ in rate_slices(rate):
        widths[width] = max(period, widths.get(width, 0.0))
    return widths


def rate_check_at(rate: RateLimit | None, spent: Iterable[RateSpent], now: float) -> float:
    """Return when to look again after a claim that the rate limited: in a second at the latest."""
    entries = tuple(spent)
    frees_at = (
        (entry.bucket + 1) * width + period
        for period, width, _ in rate_slices(rate)
        for entry in entries
        if entry.width == width
    )
    return min(now + 1.0, min((at for at in frees_at if at > now), default=math.inf))


def rate_remaining(rate: RateLimit | None, spent: Iterable[RateSpent], now: float) -> int:
    """Return how many more jobs may start at `now`.

    A slice counts in full until all of it is older than the period, so the limit holds for every
    period, wherever it begins.
    """
    remaining = 2**31
    entries = tuple(spent)
    for period, width, limit in rate_slices(rate):
        used = sum(
            entry.spent
            for entry in entries
            if entry.width == width and (entry.bucket + 1) * width > now - period
        )
        remaining = min(remaining, limit - used)
    return max(0, remaining)
