"""What is kept of the exception that ended an attempt."""

from dataclasses import dataclass

from holdfast.errors import ERRORS, Category, ErrorCode, RetryLater
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.stored_arguments import ArgumentsMismatch
from holdfast.jobs.downstreams.record import RefusedPermit, Verdict
from holdfast.jobs.error_text import one_line
from holdfast.jobs.model import Claim, JobError
from holdfast.resilience.diagnosis import Diagnosis
from holdfast.resilience.error_attributes import UNREADABLE, is_a
from holdfast.resilience.policy_diagnosis import diagnose_under


@dataclass(frozen=True, slots=True)
class Failure:
    """What is kept of an exception; it can cross a process boundary.

    Args:
        diagnosis: what it means for the next attempt.
        message: one line.
        excluded: the breaker's policy counts it as neither success nor failure.
        after: seconds to wait that the handler itself asked for.
        traceback: the text that a child process sent.
    """

    diagnosis: Diagnosis
    message: str
    excluded: bool = False
    after: float | None = None
    traceback: str | None = None

    @property
    def error(self) -> JobError:
        """What the job and its attempt store of it."""
        return JobError(self.diagnosis.code, self.message)

    @property
    def verdict(self) -> Verdict:
        """What it says about the downstream."""
        if self.excluded or not self.diagnosis.counts:
            return Verdict.NEITHER
        return Verdict.FAILURE


def summarize(error: BaseException, kind: JobKind, wall_now: float) -> Failure:
    """Return what is kept of whatever a handler raised; `wall_now` is in epoch seconds.

    A `BaseException` such as `SystemExit` ends the attempt, not the worker: an unknown failure.
    """
    unknown = Diagnosis(Category.TRANSIENT, ErrorCode.UNKNOWN, known=False)
    if not is_a(error, Exception):
        return Failure(unknown, f"the handler raised {one_line(error)}")
    if is_a(error, ArgumentsMismatch):
        # The handler was not called: its policy has no say.
        return of_code(error.code, one_line(error))
    try:
        return _examined(error, kind, wall_now)
    except UNREADABLE:
        # Some property or method of the exception, or of its class, raises.
        return Failure(unknown, one_line(error))


def _examined(error: Exception, kind: JobKind, wall_now: float) -> Failure:
    seen = diagnose_under(
        kind.policy, error, name=kind.name, wall_now=wall_now, declared=kind.errors
    )
    declared = kind.errors.get(seen.code)
    message = one_line(error) if declared is None or any(error.args) else declared.message
    breaker = kind.breaker
    excluded = breaker is not None and isinstance(error, breaker.exclude)
    after = error.after if isinstance(error, RetryLater) else None
    return Failure(seen, message, excluded, after)


def of_code(code: str, message: str = "", *, final: bool = False) -> Failure:
    """Return a failure that Holdfast itself found; it says nothing about the downstream."""
    info = ERRORS.get(code, ERRORS[ErrorCode.UNKNOWN])
    category = Category.PERMANENT if final else info.category
    return Failure(Diagnosis(category, code), message or info.message)


def refusal(claim: Claim) -> Failure:
    """Return why a claim of an open downstream fails without a call.

    The code is that of the last failed call; the message says that no call was made.
    """
    code = claim.permit.code if isinstance(claim.permit, RefusedPermit) else None
    return of_code(code or ErrorCode.CIRCUIT_OPEN, ERRORS[ErrorCode.CIRCUIT_OPEN].message)
