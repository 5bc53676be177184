"""The durable record of a downstream and the pure moves on it, shared by every store.

A record is the breaker of `holdfast.resilience.breaker.transitions` with its window, the settings
it is judged by, and a version. A store reads it inside its own transaction, calls a function here,
and writes what comes back; so both databases behave alike and nothing here does I/O. Times are
epoch seconds of the store's clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from holdfast.errors import ErrorCode
from holdfast.resilience.breaker import transitions
from holdfast.resilience.breaker.transitions import Circuit, CircuitState, Permit, Trial
from holdfast.resilience.policy import BreakerPolicy, RateLimit

_BUCKETS = 20
"""Parts that a window of time is cut into."""
_RAMP_STEPS = 8
"""How often the number of running jobs may double while a downstream is released gradually."""


class HoldMode(StrEnum):
    """What an open breaker does to jobs."""

    HOLD = "hold"
    """They stay queued; no attempt is made or counted."""
    FAIL_FAST = "fail_fast"
    """They are claimed and failed at once with the downstream's error."""


class Admission(StrEnum):
    """Under what leave a job was claimed."""

    CALL = "call"
    """The downstream is closed, or the job has none."""
    TRIAL = "trial"
    """One of the bounded number of calls that find out whether the downstream is back."""
    REFUSED = "refused"
    """Open in `fail_fast` mode: fail the job without a call."""


class Verdict(StrEnum):
    """What an attempt says of its downstream."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEITHER = "neither"
    """A 4xx, our own refusal, a cancelled attempt: not counted; a trial's place is free again."""


@dataclass(frozen=True, slots=True)
class RefusedPermit(Permit):
    """No leave for a call: what a job that fails fast gets in place of a permit.

    `code` is that of the failure which its downstream met last; None where none is known.
    """

    code: ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class TrialPermit(Permit):
    """Leave for a trial call. `well_at` is when an earlier trial last succeeded, None: never."""

    well_at: float | None = None


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call's verdict on a downstream, under the permit that came with the claim.

    `code` is the error's, where the call failed.
    """

    downstream: str
    permit: Permit
    verdict: Verdict
    code: ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class DownstreamSettings:
    """How a downstream is to be treated, as its app declares it.

    Args:
        name: its name.
        breaker: when it opens and how it tries again; None never opens. `exclude` is not stored:
            it has done its work when the verdict is made.
        mode: what happens to jobs while it is open.
        concurrency: jobs that may run at once in the whole fleet; None is unlimited.
        rate: jobs that may start in the whole fleet; None is unlimited.
        ramp_seconds: seconds after closing over which the backlog is let go gradually: at first
            twice `trial_calls` may run at once, doubling eight times until the limit is lifted;
            0 lets everything go at once.
    """

    name: str
    breaker: BreakerPolicy | None = None
    mode: HoldMode = HoldMode.HOLD
    concurrency: int | None = None
    rate: RateLimit | None = None
    ramp_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class DownstreamRecord:
    """The one durable record of a downstream. `version` rises with every write.

    `window` holds the outcomes that the rate rule looks at: `(bucket, calls, failures)`, oldest
    first. `closed_at` is when trials last closed it; `trips` counts how often it opened,
    `open_seconds` is how long it was open in all, up to the last time it closed. `last_error` is
    the code of the last failure that counted, `well_at` is when a trial call last succeeded.
    """

    settings: DownstreamSettings
    circuit: Circuit = field(default_factory=Circuit)
    window: tuple[tuple[int, int, int], ...] = ()
    closed_at: float | None = None
    trips: int = 0
    open_seconds: float = 0.0
    version: int = 0
    last_error: ErrorCode | None = None
    well_at: float | None = None

    @property
    def name(self) -> str:
        """The downstream's name."""
        return self.settings.name

    def state_at(self, now: float) -> CircuitState:
        """Return the breaker's state as of `now`."""
        return transitions.state_at(self.circuit, now)

    def holds_at(self, now: float) -> bool:
        """Say whether its jobs are held as of `now`: open, and neither cooled nor failing fast."""
        if self.circuit.held:
            return True
        if self.settings.breaker is None or self.settings.mode is not HoldMode.HOLD:
            return False
        return self.state_at(now) is CircuitState.OPEN


@dataclass(frozen=True, slots=True)
class RateSpent:
    """Jobs started in one slice of time: `bucket` times `width` seconds is where it begins."""

    width: float
    bucket: int
    spent: int


@dataclass(frozen=True, slots=True)
class Leave:
    """What one claim may take from a downstream: the record to keep, and a permit a job."""

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
) -> Leave:
    """Grant up to `wanted` permits at `now`.

    Args:
        running: jobs of this downstream that run now, fleet-wide.
        spent: what its rate limits have used, see `rate_slices`.
        trial_leases: lease expiry of each job that runs as a trial of the circuit's present
            generation, by its permit's trial number. A trial keeps its place for as long as its
            job's lease does, however long that is.
    """
    circuit, settings = record.circuit, record.settings
    room = min(wanted, rate_room(settings.rate, spent, now))
    if settings.concurrency is not None:
        room = min(room, settings.concurrency - running)
    state = transitions.state_at(circuit, now)
    policy = settings.breaker
    if policy is None or state is CircuitState.CLOSED:
        if circuit.held:
            return Leave(record)
        ramp = _ramp_limit(record, now)
        if ramp is not None:
            room = min(room, ramp - running)
        granted = ((Admission.CALL, Permit(circuit.generation)),) * max(0, room)
        return Leave(record, granted)
    trials = _grant_trials(record, policy, room, now, trial_leases or {})
    if settings.mode is HoldMode.HOLD or circuit.held:
        return trials
    refusals = wanted - len(trials.permits)
    permit = RefusedPermit(trials.record.circuit.generation, code=record.last_error)
    return Leave(trials.record, trials.permits + ((Admission.REFUSED, permit),) * refusals)


def _grant_trials(
    record: DownstreamRecord,
    policy: BreakerPolicy,
    room: int,
    now: float,
    trial_leases: Mapping[int, float],
) -> Leave:
    circuit = _kept_by_leases(record.circuit, trial_leases)
    permits: list[tuple[Admission, Permit]] = []
    while len(permits) < room:
        circuit, permit = transitions.admit(circuit, policy, now)
        if permit is None:
            break
        trial = TrialPermit(permit.generation, permit.trial, record.well_at)
        permits.append((Admission.TRIAL, trial))
    if not permits:
        return Leave(record)
    return Leave(replace(record, circuit=circuit), tuple(permits))


def _kept_by_leases(circuit: Circuit, trial_leases: Mapping[int, float]) -> Circuit:
    kept = tuple(
        Trial(trial.number, max(trial.expires_at, trial_leases.get(trial.number, 0.0)))
        for trial in circuit.trials
    )
    return circuit if kept == circuit.trials else replace(circuit, trials=kept)


def judge(record: DownstreamRecord, reports: Sequence[CallReport], now: float) -> DownstreamRecord:
    """Apply the verdicts of `reports`, in their order, and return the record to keep.

    Returns the same object where nothing changed, so that a store knows not to write.
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
        # Also where a twin's failure has ended the phase of this trial: the downstream answers.
        record = replace(record, well_at=now)
    if permit.generation != circuit.generation:
        return record
    if report.verdict is Verdict.NEITHER:
        moved, window = transitions.give_back(circuit, permit), record.window
    else:
        failed = report.verdict is Verdict.FAILURE
        window = _counted(record.window, policy, failed, now)
        if failed:
            rate_passed = policy.rate_passed(
                sum(calls for _, calls, _ in window), sum(failures for _, _, failures in window)
            )
            moved = transitions.fail(circuit, policy, permit, now, rate_passed=rate_passed)
            last_error = report.code
        else:
            moved = transitions.succeed(circuit, policy, permit, now)
    if moved is circuit and window == record.window:
        return record
    return settle(replace(record, window=window, last_error=last_error), moved, now)


def settle(record: DownstreamRecord, circuit: Circuit, now: float) -> DownstreamRecord:
    """Return `record` with `circuit` in place, keeping the books of when it opened and closed."""
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


def _counted(
    window: tuple[tuple[int, int, int], ...], policy: BreakerPolicy, failed: bool, now: float
) -> tuple[tuple[int, int, int], ...]:
    if policy.failure_rate is None:
        return window
    if policy.window_seconds is None:
        return (*window, (0, 1, int(failed)))[-policy.window_calls :]
    bucket = int(now // (policy.window_seconds / _BUCKETS))
    kept = tuple(entry for entry in window if entry[0] > bucket - _BUCKETS)
    if kept and kept[-1][0] >= bucket:
        last, calls, failures = kept[-1]
        return (*kept[:-1], (last, calls + 1, failures + failed))
    return (*kept, (bucket, 1, int(failed)))


def _ramp_limit(record: DownstreamRecord, now: float) -> int | None:
    policy, ramp = record.settings.breaker, record.settings.ramp_seconds
    if policy is None or record.closed_at is None or ramp <= 0:
        return None
    elapsed = now - record.closed_at
    if elapsed >= ramp:
        return None
    return int(policy.trial_calls * 2 ** (1 + max(0.0, elapsed) * _RAMP_STEPS // ramp))


def rate_slices(rate: RateLimit | None) -> tuple[tuple[float, float, int], ...]:
    """Return, for each limit of `rate`: its period and its slice's width in seconds, its limit."""
    if rate is None:
        return ()
    minute = () if rate.per_minute is None else ((60.0, 1.0, rate.per_minute),)
    day = () if rate.per_day is None else ((86400.0, 900.0, rate.per_day),)
    return (*minute, *day)


def rate_room(rate: RateLimit | None, spent: Iterable[RateSpent], now: float) -> int:
    """Return how many more jobs may start at `now`, counting every slice that may still overlap.

    A slice counts as a whole until all of it has left the period, so the limit holds for any
    period, wherever it begins.
    """
    room = 2**31
    entries = tuple(spent)
    for period, width, limit in rate_slices(rate):
        used = sum(
            entry.spent
            for entry in entries
            if entry.width == width and (entry.bucket + 1) * width > now - period
        )
        room = min(room, limit - used)
    return max(0, room)
