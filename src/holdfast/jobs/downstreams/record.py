"""The durable record of a downstream, and how reported calls change it.

A record is a circuit of `holdfast.resilience.breaker.transitions` with its window, its settings and
a version. A store reads it in a transaction, calls a pure function here and writes the result, so
all stores behave alike. Times are epoch seconds of the store's clock.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from holdfast.resilience.breaker import transitions
from holdfast.resilience.breaker.transitions import Cause, Circuit, CircuitState, Permit
from holdfast.resilience.breaker.window import window_for
from holdfast.resilience.policy import BreakerPolicy, RateLimit

USE_NOTED_EVERY = 3600.0
"""Seconds to which the last use of a record is known, so that not every use is written."""
UNUSED_FOR = 2 * 86_400.0
"""Seconds after its last use when the record of a key is deleted: no rate counts for so long."""
_MOST_RETRIES = 1000
"""Jobs of failed trials that a record remembers; a job beyond that waits until its retry is due."""
_MOST_DOUBLINGS = 30
"""Far more than it takes to reach any `open_for`, and few enough for a float."""


_MOST_TRIPS = 100
"""Times of opening that a record remembers."""


class HoldMode(StrEnum):
    """What an open breaker does to jobs."""

    HOLD = "hold"
    """They stay queued; no attempt is made or counted."""
    FAIL_FAST = "fail_fast"
    """They are claimed and fail at once with the downstream's last error."""


class Admission(StrEnum):
    """How a job's downstream admitted it at the claim."""

    CALL = "call"
    """The downstream is closed, or the job has none."""
    TRIAL = "trial"
    """A trial call of a half-open breaker; their number is bounded."""
    REFUSED = "refused"
    """Open in `fail_fast` mode: fail the job without a call."""


class Verdict(StrEnum):
    """What an attempt shows about its downstream."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEITHER = "neither"
    """A 4xx, our own refusal, a cancelled attempt: not counted; a trial's permit is released."""


@dataclass(frozen=True, slots=True)
class RefusedPermit(Permit):
    """No permit: the job must fail without a call.

    `code` is that of the downstream's last failure; None if unknown.
    """

    code: str | None = None


@dataclass(frozen=True, slots=True)
class TrialRetry:
    """A job whose trial call failed, and which is ready again at about `ready_at`.

    `token` is that of the trial's lease: a job with a later one has run since. The call's answer
    asked for no further call before `not_before`; 0 if it asked for nothing.
    """

    job_id: str
    token: int
    ready_at: float
    not_before: float = 0.0


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call's verdict on a downstream, with the permit from the claim.

    `code` is the error's code if the call failed. `retry` is set if it was a trial and its job is
    tried again.
    """

    downstream: str
    permit: Permit
    verdict: Verdict
    code: str | None = None
    retry: TrialRetry | None = None


@dataclass(frozen=True, slots=True)
class DownstreamSettings:
    """The declared settings of a downstream.

    Args:
        name: its name.
        breaker: when it opens and closes; None never opens. `exclude` is not stored: only the
            worker that makes the verdict needs it.
        mode: what happens to jobs while it is open.
        concurrency: most jobs that run at once in the whole fleet; None is unlimited.
        spare: how many of these one owner leaves to others, see `holdfast.jobs.owner_places`;
            0 without `concurrency`.
        rate: limit on job starts in the whole fleet; None is unlimited.
        ramp_seconds: seconds after closing during which the number of running jobs is limited: to
            twice `trial_calls` at first, doubling eight times; 0 sets no such limit.
        unproven_concurrency: most jobs that run at once until a call has succeeded: while none
            has been reported yet, and after a failure; None sets no such limit.
        parent: the downstream whose `key` made the name: `host` of `host:example.org`. Its record
            is deleted when nothing has used it for long; with None it is never deleted.
    """

    name: str
    breaker: BreakerPolicy | None = None
    mode: HoldMode = HoldMode.HOLD
    concurrency: int | None = None
    rate: RateLimit | None = None
    ramp_seconds: float = 30.0
    spare: int = 0
    unproven_concurrency: int | None = None
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class DownstreamRecord:
    """The durable record of a downstream.

    `version` rises with every write; a new record begins with one that no deleted record of that
    name has had.

    `window` holds the calls for the failure rate: `(bucket, calls, failures)`, oldest first.
    `closed_at` is when it last closed; `trips` counts how often it opened; `open_seconds` is how
    long it was open in total, until it last closed. `last_error` is the code of the last counted
    failure. `failed_rounds` counts how often trial calls have failed since it opened, and
    `trial_retries` are the jobs that wait because of that: when it closes, the store makes them
    ready, each at its `not_before` at the earliest. `proven` says that the last counted call has
    succeeded; it is kept only where the settings limit `unproven_concurrency`. `recent_trips` are
    the times when it last opened, oldest first. `used_at` is when it was last used, to the hour; it
    is kept only where the settings have a `parent`.
    """

    settings: DownstreamSettings
    circuit: Circuit = field(default_factory=Circuit)
    window: tuple[tuple[int, int, int], ...] = ()
    closed_at: float | None = None
    trips: int = 0
    open_seconds: float = 0.0
    version: int = 0
    last_error: str | None = None
    failed_rounds: int = 0
    trial_retries: tuple[TrialRetry, ...] = ()
    proven: bool = False
    recent_trips: tuple[float, ...] = ()
    used_at: float | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The downstream's name."""
        return self.settings.name

    def released_trials(self) -> tuple[TrialRetry, ...]:
        """Return the jobs of failed trials that no longer wait for it to close: it is closed."""
        return self.trial_retries if self.circuit.state is CircuitState.CLOSED else ()

    def state_at(self, now: float) -> CircuitState:
        """Return the breaker's state as of `now`."""
        return transitions.state_at(self.circuit, now)

    @property
    def held_until(self) -> float | None:
        """When its jobs stop being held: never, if by a person; at `open_until` in `hold` mode.

        None if nothing holds them. The stores have this rule too, in their columns `held_until`;
        the conformance suite compares every case.
        """
        if self.circuit.held:
            return math.inf
        if self.settings.breaker is None or self.settings.mode is not HoldMode.HOLD:
            return None
        return self.circuit.open_until

    def holds_at(self, now: float) -> bool:
        """Say whether its jobs are held as of `now`."""
        return self.held_until is not None and now < self.held_until

    def use_is_noted(self, now: float) -> bool:
        """Say whether a use at `now` need not be noted: one was within the hour, or none counts."""
        if self.settings.parent is None:
            return True
        return self.used_at is not None and self.used_at > now - USE_NOTED_EVERY


def by_downstream(reports: Iterable[CallReport]) -> dict[str, list[CallReport]]:
    """Return `reports` by the names of their downstreams, each in the given order."""
    found: dict[str, list[CallReport]] = {}
    for report in reports:
        found.setdefault(report.downstream, []).append(report)
    return found


def judge(record: DownstreamRecord, reports: Sequence[CallReport], now: float) -> DownstreamRecord:
    """Apply the verdicts of `reports`, in their order, and return the record to store.

    Returns the same object if nothing changed, so that the store need not write it.
    """
    policy = record.settings.breaker
    if policy is None:
        return record
    for report in reports:
        record = _judge_one(record, policy, report, now)
    return _with_retries(record, reports, now)


def _with_retries(
    record: DownstreamRecord, reports: Sequence[CallReport], now: float
) -> DownstreamRecord:
    """Add the jobs of failed trials, those of earlier generations too, and drop those now due."""
    added = [
        report.retry
        for report in reports
        if report.retry is not None and report.verdict is Verdict.FAILURE
    ]
    if not added:
        return record
    waiting = [retry for retry in record.trial_retries if retry.ready_at > now]
    return replace(record, trial_retries=(*waiting, *added)[-_MOST_RETRIES:])


def _judge_one(
    record: DownstreamRecord, policy: BreakerPolicy, report: CallReport, now: float
) -> DownstreamRecord:
    circuit, permit, last_error = record.circuit, report.permit, record.last_error
    proven = record.proven
    if permit.generation != circuit.generation:
        return record
    if report.verdict is Verdict.NEITHER:
        moved, window = transitions.release_permit(circuit, permit), record.window
    else:
        failed, rate_passed, window = report.verdict is Verdict.FAILURE, False, record.window
        if record.settings.unproven_concurrency is not None:
            proven = not failed
        counts = window_for(policy, window)
        if counts is not None:
            counts.record(failed, now)
            rate_passed, window = policy.rate_passed(*counts.totals(now)), counts.entries()
        if failed:
            moved = transitions.fail(circuit, policy, permit, now, rate_passed=rate_passed)
            last_error = report.code
        else:
            moved = transitions.succeed(circuit, policy, permit, now, rate_passed=rate_passed)
    if moved is circuit and window == record.window and proven is record.proven:
        return record
    counted = replace(record, window=window, last_error=last_error, proven=proven)
    return with_circuit(counted, moved, now)


def with_circuit(record: DownstreamRecord, circuit: Circuit, now: float) -> DownstreamRecord:
    """Return `record` with `circuit`; update its window, trips and times of opening and closing."""
    before = record.circuit
    if circuit.state is before.state:
        return replace(record, circuit=circuit)
    if circuit.state is CircuitState.CLOSED:
        open_for = now - before.opened_at if before.opened_at is not None else 0.0
        return replace(
            record,
            circuit=circuit,
            window=(),
            closed_at=now,
            open_seconds=record.open_seconds + max(0.0, open_for),
            failed_rounds=0,
        )
    trips = (now,) if before.state is CircuitState.CLOSED else ()
    return replace(
        record,
        circuit=circuit,
        window=(),
        trips=record.trips + len(trips),
        recent_trips=(*record.recent_trips, *trips)[-_MOST_TRIPS:],
        failed_rounds=record.failed_rounds + (circuit.cause is Cause.TRIAL_FAILED),
    )


def probe_from(record: DownstreamRecord, probe_every: float) -> float:
    """Return when a passing probe may let trial calls through, in epoch seconds.

    A downstream that passes its probe and fails its trials is left alone longer after each round of
    trials: `probe_every` seconds, doubled each time, but never longer than `open_for`.
    """
    circuit, policy = record.circuit, record.settings.breaker
    if policy is None or circuit.open_until is None or not record.failed_rounds:
        return 0.0
    doublings = min(record.failed_rounds, _MOST_DOUBLINGS)
    opened_again_at = circuit.open_until - policy.open_for
    return min(circuit.open_until, opened_again_at + probe_every * 2.0**doublings)
