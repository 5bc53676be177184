"""Receive callbacks: each result once, in time or late.

Whether a result is in time is decided by two stored times alone: when its callback was received,
and the submission's deadline. So the outcome is the same whether the deadline's scheduler or the
callback comes first:

- received in time: `COMPLETED`, also if the scheduler has marked the submission in between;
- received late: `FAILED` with `TIMEOUT`, also if the scheduler has not yet come to it. The result
  is kept with `is_late`, and neither the status nor the progress figures follow it.
"""

import logging
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from holdfast import DatabaseTransaction, Engine, ErrorCode, Permanent
from holdfast_grading.error_codes import UNKNOWN_REQUEST, UNKNOWN_SUBMISSION
from holdfast_grading.graders.rubric import GradingResult
from holdfast_grading.messages import CALLBACK, GradingCallback, request_id_of
from holdfast_grading.notices import notify
from holdfast_grading.tables import Status, Submission, locked, sql_for

TIMEOUT = "TIMEOUT"
"""The reason of a submission that was not graded by its deadline."""

_log = logging.getLogger("holdfast.grading")
_COUNT = """
    UPDATE {submissions} SET attempts = :attempts
    WHERE id = :id AND status IN ('PENDING', 'PROCESSING') AND attempts < :attempts
"""
_COMPLETE = """
    UPDATE {submissions}
    SET status = 'COMPLETED', score = :score, completed_at = :at,
        failure_reason = NULL, failure_message = NULL
    WHERE id = :id
"""
_FAIL = """
    UPDATE {submissions}
    SET status = 'FAILED', failure_reason = :reason, failure_message = :message, completed_at = :at
    WHERE id = :id
"""
_KEEP = """
    INSERT INTO {results} (submission_id, is_late, received_at, result)
    VALUES (:id, CAST(:late AS {boolean}), :at, :result)
"""


class Received(StrEnum):
    """What became of a callback."""

    COMPLETED = "completed"
    """Its result is the submission's."""
    FAILED = "failed"
    """The submission has failed with its error."""
    LATE = "late"
    """It came after the deadline; a result is kept for audit."""
    DUPLICATE = "duplicate"
    """The submission was finished before."""
    WAITING = "waiting"
    """The circuit is open: nothing has changed, and the request comes back."""


@dataclass(frozen=True, slots=True)
class _Change:
    """One callback, about to change one submission in one transaction."""

    engine: Engine
    tx: DatabaseTransaction
    submission: Submission
    received_at: float

    @property
    def is_late(self) -> bool:
        return self.received_at > self.submission.deadline_at

    async def complete(self, result: GradingResult) -> None:
        await self._run(_COMPLETE, score=result.score)
        await self._notify(Status.COMPLETED)

    async def fail(self, reason: str, message: str | None) -> None:
        await self._run(_FAIL, reason=reason, message=message)
        await self._notify(Status.FAILED, reason)

    async def keep(self, result: GradingResult) -> None:
        text = msgspec.json.encode(result).decode()
        await self._run(_KEEP, late=self.is_late, result=text)

    async def count(self, attempts: int) -> None:
        await self._run(_COUNT, attempts=attempts)

    async def time_out(self) -> None:
        if not self.submission.is_finished:
            await self.fail(TIMEOUT, None)

    async def _run(self, statement: str, **values: object) -> None:
        which = {"id": self.submission.id, "at": self.received_at}
        await self.tx.fetch(sql_for(self.engine.database, statement), {**which, **values})

    async def _notify(self, status: Status, reason: str | None = None) -> None:
        await notify(self.engine, self.tx, self.submission, status, reason)


async def receive(engine: Engine, callback: GradingCallback, received_at: float) -> Received:
    """Handle a callback that was received at `received_at`, in epoch seconds by the store's clock.

    All that it changes is one transaction, with the record that its request was handled.

    Args:
        engine: has the grading app among its apps.

    Raises:
        Permanent: `UNKNOWN_SUBMISSION`, or `UNKNOWN_REQUEST`: it answers another one's request.
    """
    async with engine.database.transaction() as tx:
        submission = await locked(engine.database, tx, callback.submission_id)
        if submission is None:
            line = f"there is no submission {callback.submission_id}"
            raise Permanent(UNKNOWN_SUBMISSION, line)
        if callback.request_id != request_id_of(submission.id, submission.request_id):
            # Recorded as handled it would be the loss of the other submission's result.
            line = f"the request of submission {submission.id} has another id"
            raise Permanent(UNKNOWN_REQUEST, line)
        change = _Change(engine, tx, submission, received_at)
        if callback.attempts is not None:
            await change.count(callback.attempts)
        if callback.result is not None:
            received = await _take_result(change, callback.request_id, callback.result)
        else:
            assert callback.error is not None  # as messages are checked
            received = await _take_error(change, callback.error.code, callback.error.message)
    _log.info("submission %s: callback %s", callback.submission_id, received)
    return received


async def _take_result(change: _Change, request_id: str, result: GradingResult) -> Received:
    first = await change.engine.inbox.first(change.tx.connection, request_id, consumer=CALLBACK)
    if not first or change.submission.status is Status.COMPLETED:
        return Received.DUPLICATE
    await change.keep(result)
    if change.is_late:
        await change.time_out()
        return Received.LATE
    await change.complete(result)
    return Received.COMPLETED


async def _take_error(change: _Change, code: str, message: str) -> Received:
    """Fail the submission. Harmless if repeated; a result that comes in time still completes it,
    such as that of a dead letter which a person has requeued.
    """
    if code == ErrorCode.CIRCUIT_OPEN:
        return Received.WAITING
    if change.submission.is_finished:
        return Received.DUPLICATE
    if change.is_late:
        await change.time_out()
        return Received.LATE
    # A call that took too long has the code that is the reason of the deadline alone.
    await change.fail(ErrorCode.GW_TIMEOUT if code == TIMEOUT else code, message)
    return Received.FAILED
