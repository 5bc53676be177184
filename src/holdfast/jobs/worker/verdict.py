"""Retry or dead letter: what a failed attempt means for its job.

`decide` is pure:

- A permanent error is a dead letter at once; a kind without dead letters only fails.
- A transient one is tried again until the kind's `max_attempts`.
- A code in the kind's `retry_once` has one more attempt, unless an earlier attempt of the job
  failed with the same code; so an `IO_ERROR` after a `GW_5XX` still has its one retry.

A trial call that fails is an attempt like any other. Its job waits a little longer than the breaker
stays open, so that the next trial is another job's; when the breaker closes earlier, the store
makes the job ready (`CallReport.retry`), or ready at the time that the call's answer asked for.

A job whose next attempt could only start after its deadline fails now.

A job whose stored arguments cannot be read waits, without counting the attempt: a worker with
another release of the declaration may be able to read them. It waits 10 s at first, then twice as
long each time, at most 15 minutes. Claims without a counted attempt stand for the times before:
releases and attempts before a manual retry are among them, and make the first wait longer.
"""

from collections.abc import Sequence
from random import Random

from holdfast.errors import Category, ErrorCode
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.downstreams.record import Admission, Verdict
from holdfast.jobs.history import Attempt
from holdfast.jobs.model import (
    AttemptOutcome,
    Claim,
    DeadLetterReason,
    Failed,
    JobError,
    Outcome,
    Retry,
)
from holdfast.jobs.structs import Value
from holdfast.jobs.worker.failure import Failure
from holdfast.jobs.worker.retry_delay import retry_delay
from holdfast.resilience.backoff import Exponential

_AFTER_FAILED_TRIAL = 1.25
"""How long a job whose trial failed waits, as a multiple of the breaker's `open_for`."""
_MISMATCH_WAIT = Exponential(base=10.0, multiplier=2.0, cap=900.0, jitter=0.2)
"""Seconds that a job waits whose stored arguments cannot be read, by how often that was so."""
_FINAL = (AttemptOutcome.FAILED, AttemptOutcome.CANCELLED, AttemptOutcome.TIMEOUT)


class Conclusion(Value, frozen=True):
    """What an attempt comes to.

    Args:
        outcome: what is reported about the job.
        verdict: what the call says about the downstream; None where there was no call.
        failure: the error behind the outcome, if there is one.
    """

    outcome: Outcome
    verdict: Verdict | None
    failure: Failure | None = None


def needs_history(failure: Failure, claim: Claim, kind: JobKind) -> bool:
    """Say whether `decide` has to know the earlier attempts of the job."""
    once = failure.diagnosis.code in kind.retry_once
    return once and 1 < claim.attempt < claim.max_attempts


def failed_trial(verdict: Verdict | None, claim: Claim) -> bool:
    """Say whether the attempt was a trial that found its downstream still down."""
    return claim.admission is Admission.TRIAL and verdict is Verdict.FAILURE


def failed_before(attempts: Sequence[Attempt], claim: Claim, code: str) -> bool:
    """Say whether an earlier attempt failed with `code`, since the job was created or retried.

    A released attempt, whose number was used again, does not count. `attempts` are in order.
    """
    number = claim.attempt
    for attempt in reversed(attempts):
        if attempt.token >= claim.lease.token:
            continue
        if attempt.number > number or attempt.outcome in _FINAL:
            return False
        counted, number = attempt.number < number, attempt.number
        if counted and attempt.error is not None and attempt.error.code == code:
            return True
    return False


def decide(
    failure: Failure,
    claim: Claim,
    kind: JobKind,
    rng: Random,
    *,
    duration: float,
    repeated: bool = False,
) -> Retry | Failed:
    """Return the outcome to report.

    Args:
        duration: seconds that the attempt ran.
        repeated: an earlier attempt failed with the same code, see `failed_before`.
    """
    seen, error = failure.diagnosis, failure.error
    if seen.category is Category.PERMANENT:
        return failed(error, DeadLetterReason.PERMANENT, kind)
    if seen.code == ErrorCode.ARGUMENTS_MISMATCH:
        # The token counts all claims of the job, `attempt` only those that counted.
        times = claim.lease.token - claim.attempt + 1
        return Retry(_MISMATCH_WAIT.delay(times, rng), error, counted=False)
    if seen.ambiguous and not kind.policy.idempotent:
        return failed(error, DeadLetterReason.PERMANENT, kind)
    if claim.attempt >= claim.max_attempts or (repeated and seen.code in kind.retry_once):
        return failed(error, DeadLetterReason.ATTEMPTS_EXHAUSTED, kind)
    delay = retry_delay(failure, claim, kind, rng)
    if claim.deadline_at is not None and (claim.started_at + duration + delay >= claim.deadline_at):
        return failed(error, DeadLetterReason.DEADLINE, kind)
    if kind.breaker is not None and failed_trial(failure.verdict, claim):
        delay = max(delay, _AFTER_FAILED_TRIAL * kind.breaker.open_for)
    return Retry(delay, error)


def failed(error: JobError, reason: DeadLetterReason, kind: JobKind) -> Failed:
    """Return the outcome of a job that fails for good: a dead letter, unless its kind has none."""
    return Failed(error, reason if kind.dead_letters else None)
