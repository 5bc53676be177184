"""The durable record of a downstream, and how reported calls change it.

A record is a circuit of `holdfast.resilience.breaker.transitions` with its window, its settings and
a version. A store reads it in a transaction, calls a pure function here and writes the result, so
all stores behave alike. Times are epoch seconds of the store's clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from holdfast.resilience.breaker import transitions
from holdfast.resilience.breaker.transitions import Circuit, CircuitState, Permit
from holdfast.resilience.breaker.window import window_for
from holdfast.resilience.policy import BreakerPolicy, RateLimit


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
class TrialPermit(Permit):
    """A permit for a trial call. `well_at` is when a trial last succeeded; None if never."""

    well_at: float | None = None


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call's verdict on a downstream, with the permit from the claim.

    `code` is the error's code if the call failed.
    """

    downstream: str
    permit: Permit
    verdict: Verdict
    code: str | None = None


@dataclass(frozen=True, slots=True)
class DownstreamSettings:
    """The declared settings of a downstream.

    Args:
        name: its name.
        breaker: when it opens and closes; None never opens. `exclude` is not stored: only the
            worker that makes the verdict needs it.
        mode: what happens to jobs while it is open.
        concurrency: most jobs that run at once in the whole fleet; None is unlimited.
        rate: limit on job starts in the whole fleet; None is unlimited.
        ramp_seconds: seconds after closing during which the number of running jobs is limited: to
            twice `trial_calls` at first, doubling eight times; 0 sets no such limit.
    """

    name: str
    breaker: BreakerPolicy | None = None
    mode: HoldMode = HoldMode.HOLD
    concurrency: int | None = None
    rate: RateLimit | None = None
    ramp_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class DownstreamRecord:
    """The durable record of a downstream. `version` rises with every write.

    `window` holds the calls for the failure rate: `(bucket, calls, failures)`, oldest first.
    `closed_at` is when it last closed; `trips` counts how often it opened; `open_seconds` is how
    long it was open in total, until it last closed. `last_error` is the code of the last counted
    failure, `well_at` is when a trial call last succeeded.
    """

    settings: DownstreamSettings
    circuit: Circuit = field(default_factory=Circuit)
    window: tuple[tuple[int, int, int], ...] = ()
    closed_at: float | None = None
    trips: int = 0
    open_seconds: float = 0.0
    version: int = 0
    last_error: str | None = None
    well_at: float | None = None

    @property
    def name(self) -> str:
        """The downstream's name."""
        return self.settings.name

    def state_at(self, now: float) -> CircuitState:
        """Return the breaker's state as of `now`."""
        return transitions.state_at(self.circuit, now)

    def holds_at(self, now: float) -> bool:
        """Say whether its jobs are held as of `now`: by a person, or open in `hold` mode."""
        if self.circuit.held:
            return True
        if self.settings.breaker is None or self.settings.mode is not HoldMode.HOLD:
            return False
        return self.state_at(now) is CircuitState.OPEN


def judge(record: DownstreamRecord, reports: Sequence[CallReport], now: float) -> DownstreamRecord:
    """Apply the verdicts of `reports`, in their order, and return the record to store.

    Returns the same object if nothing changed, so that the store need not write it.
    """
    policy = record.settings.breaker
    if policy is None:
        return record
    for report in reports:
        record = _judge_one(record, policy, report, now)
    return record


def _judge_one(
    record: DownstreamRecord, policy: BreakerPolicy, report: CallReport, now: float
) -> DownstreamRecord:
    circuit, permit, last_error = record.circuit, report.permit, record.last_error
    if permit.trial is not None and report.verdict is Verdict.SUCCESS:
        # Also if another trial's failure opened the circuit again: the downstream did answer.
        record = replace(record, well_at=now)
    if permit.generation != circuit.generation:
        return record
    if report.verdict is Verdict.NEITHER:
        moved, window = transitions.release_permit(circuit, permit), record.window
    else:
        failed, rate_passed, window = report.verdict is Verdict.FAILURE, False, record.window
        counts = window_for(policy, window)
        if counts is not None:
            counts.record(failed, now)
            rate_passed, window = policy.rate_passed(*counts.totals(now)), counts.entries()
        if failed:
            moved = transitions.fail(circuit, policy, permit, now, rate_passed=rate_passed)
            last_error = report.code
        else:
            moved = transitions.succeed(circuit, policy, permit, now)
    if moved is circuit and window == record.window:
        return record
    return with_circuit(replace(record, window=window, last_error=last_error), moved, now)


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
        )
    tripped = before.state is CircuitState.CLOSED
    return replace(record, circuit=circuit, window=(), trips=record.trips + tripped)
