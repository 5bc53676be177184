"""What an attempt's error comes to: first looked at, then decided.

`look` reads an exception and returns a `Trouble`, a value that can cross a process boundary;
`decide` is pure and turns it into the outcome to report. How a code is tried again is in the one
table of `holdfast.errors`, and how often and when in the kind's policy:

- never: a dead letter at once.
- once: one more attempt, unless an earlier attempt of the job failed with that very code; so an
  `IO_ERROR` after a `GW_5XX` still has its one retry.
- by policy: until `max_attempts`.

A trial call that its downstream fails is not held against the job: it goes back without counting,
however often that happens, as a job that is held burns no attempt either. Only where the
downstream has answered another trial well since the job failed before is the failure the job's
own, and counts: else a job whose content fails every call would run, and open the breaker, for
ever. A job whose trial failed also waits a little longer than the breaker: the next trial is
another job's, where there is one.

A wait that the downstream asked for replaces a shorter computed one and is never shortened, not
even by the backoff's cap: a waiting job takes no slot. `RetryLater` is the handler's own decision
and is followed to the letter. Only ten years are the most that either can ask for. Where the next
attempt could only start after the deadline, the job is failed now.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from holdfast.errors import ERRORS, Category, ErrorCode, RetryLater, RetryRule
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.downstreams.record import Admission, RefusedPermit, TrialPermit, Verdict
from holdfast.jobs.error_text import one_line
from holdfast.jobs.model import (
    Attempt,
    AttemptOutcome,
    Claim,
    DeadLetterReason,
    Failed,
    JobError,
    Outcome,
    Retry,
)
from holdfast.jobs.structs import Value
from holdfast.resilience.categorize import Diagnosis, diagnose

_log = logging.getLogger("holdfast.worker")

_LONGEST_WAIT = 3650 * 86400.0
"""Seconds that a retry waits at most, whoever asks for more: a moment that any store can keep."""
_YIELD = 1.25
"""How long a job whose trial failed waits, as a multiple of the breaker's `open_for`."""
_FINAL = (AttemptOutcome.FAILED, AttemptOutcome.CANCELLED, AttemptOutcome.TIMEOUT)


@dataclass(frozen=True, slots=True)
class Trouble:
    """All that is kept of an exception.

    Args:
        diagnosis: what it means for the next attempt.
        message: one line.
        excluded: the breaker's policy counts it as neither success nor failure.
        after: seconds to wait that the handler itself decided.
    """

    diagnosis: Diagnosis
    message: str
    excluded: bool = False
    after: float | None = None

    @property
    def error(self) -> JobError:
        """What the job and its attempt keep of it."""
        return JobError(self.diagnosis.code, self.message)

    @property
    def verdict(self) -> Verdict:
        """What it says of the downstream."""
        if self.excluded or not self.diagnosis.counts:
            return Verdict.NEITHER
        return Verdict.FAILURE


class Conclusion(Value, frozen=True):
    """What an attempt comes to.

    Args:
        outcome: what is reported of the job.
        verdict: what the call says of the downstream; None where there was no call.
        trouble: the error behind the outcome, if there is one.
    """

    outcome: Outcome
    verdict: Verdict | None
    trouble: Trouble | None = None


def look(error: BaseException, kind: JobKind, wall_now: float) -> Trouble:
    """Return what is worth keeping of `error`; `wall_now` is the time in epoch seconds."""
    seen = diagnose(error, wall_now=wall_now)
    category = _own_category(error, kind)
    if category is not None and category is not seen.category:
        seen = replace(seen, category=category, known=True, counts=category is Category.TRANSIENT)
    breaker = kind.breaker
    excluded = breaker is not None and isinstance(error, breaker.exclude)
    after = error.after if isinstance(error, RetryLater) else None
    return Trouble(seen, one_line(error), excluded, after)


def trouble_of(error: BaseException, kind: JobKind, wall_now: float) -> Trouble:
    """Return what is worth keeping of whatever a handler raised, `SystemExit` and all.

    What is no `Exception` is meant for whoever runs the process, and here that is only the attempt:
    it is an unknown failure and not, as elsewhere, a wish to stop.
    """
    if isinstance(error, Exception):
        return look(error, kind, wall_now)
    message = f"the handler raised {one_line(error)}"
    return Trouble(Diagnosis(Category.TRANSIENT, ErrorCode.UNKNOWN, known=False), message)


def _own_category(error: BaseException, kind: JobKind) -> Category | None:
    own = kind.policy.categorize
    if own is None:
        return None
    try:
        return own(error)
    except Exception:
        # The attempt's own error is what must be reported, not one about looking at it.
        _log.exception("the policy of %s failed to categorize an error", kind.name)
        return None


def of_code(code: ErrorCode, message: str = "", *, final: bool = False) -> Trouble:
    """Return a trouble of our own making, which says nothing of the downstream."""
    info = ERRORS[code]
    category = Category.PERMANENT if final else info.category
    return Trouble(Diagnosis(category, code), message or info.message)


def refusal(claim: Claim) -> Trouble:
    """Return why a claim of an open downstream is failed without a call.

    Its code is that of the call which failed last; that there was none now, the message says.
    """
    code = claim.permit.code if isinstance(claim.permit, RefusedPermit) else None
    return of_code(code or ErrorCode.CIRCUIT_OPEN, ERRORS[ErrorCode.CIRCUIT_OPEN].message)


def needs_history(trouble: Trouble, claim: Claim, *, own: bool = False) -> bool:
    """Say whether `decide` has to know the earlier attempts of the job."""
    if trouble.diagnosis.retry is not RetryRule.ONCE:
        return False
    if failed_trial(trouble, claim) and not own:
        return False
    return 1 < claim.attempt < claim.max_attempts


def may_be_own(claim: Claim) -> bool:
    """Say whether a failure of this attempt may be the job's own though it is a trial."""
    permit = claim.permit
    return isinstance(permit, TrialPermit) and permit.well_at is not None and claim.lease.token > 1


def would_be_own(attempts: Sequence[Attempt], claim: Claim) -> bool:
    """Say whether the downstream has answered a trial well since the job failed before."""
    well_at = claim.permit.well_at if isinstance(claim.permit, TrialPermit) else None
    failed = [
        attempt.started_at
        for attempt in attempts
        if attempt.error is not None and attempt.token < claim.lease.token
    ]
    return well_at is not None and bool(failed) and failed[-1] < well_at


def failed_trial(trouble: Trouble, claim: Claim) -> bool:
    """Say whether the attempt only found out that its downstream is still down."""
    return claim.admission is Admission.TRIAL and trouble.verdict is Verdict.FAILURE


def failed_before(attempts: Sequence[Attempt], claim: Claim, code: ErrorCode) -> bool:
    """Say whether an earlier attempt in the job's present life failed with `code`.

    A life begins when the job is created or retried by a person. An attempt that was given back,
    whose number another has again, is none. `attempts` are in their order.
    """
    number = claim.attempt
    for attempt in reversed(attempts):
        if attempt.token >= claim.lease.token:
            continue
        if attempt.number > number or attempt.outcome in _FINAL:
            return False
        counted, number = attempt.number < number, attempt.number
        if counted and attempt.error is not None and attempt.error.code is code:
            return True
    return False


def decide(
    trouble: Trouble,
    claim: Claim,
    kind: JobKind,
    rng: Random,
    *,
    duration: float,
    repeated: bool = False,
    own: bool = False,
) -> Retry | Failed:
    """Return the outcome to report.

    Args:
        duration: seconds that the attempt ran.
        repeated: an earlier attempt failed with the same code, see `failed_before`.
        own: a failed trial is the job's own failure, see `would_be_own`.
    """
    seen, error = trouble.diagnosis, trouble.error
    if seen.retry is RetryRule.NEVER:
        return Failed(error, DeadLetterReason.PERMANENT)
    if seen.ambiguous and not kind.policy.idempotent:
        return Failed(error, DeadLetterReason.PERMANENT)
    counted = own or not failed_trial(trouble, claim)
    spent = claim.attempt >= claim.max_attempts or (seen.retry is RetryRule.ONCE and repeated)
    if spent and counted:
        return Failed(error, DeadLetterReason.ATTEMPTS_EXHAUSTED)
    delay = _delay(trouble, claim, kind, rng)
    if claim.deadline_at is not None and (claim.started_at + duration + delay >= claim.deadline_at):
        return Failed(error, DeadLetterReason.DEADLINE)
    if not counted and kind.breaker is not None:
        delay = max(delay, _YIELD * kind.breaker.open_for)
    return Retry(delay, error, counted)


def _delay(trouble: Trouble, claim: Claim, kind: JobKind, rng: Random) -> float:
    if trouble.after is not None:
        return min(trouble.after, _LONGEST_WAIT)
    delay = kind.policy.backoff.delay(claim.attempt, rng)
    return min(max(delay, trouble.diagnosis.retry_after or 0.0), _LONGEST_WAIT)
