"""Commit a handler's transaction with the completion of its job, or roll it back."""

from holdfast.errors import DeadlineExceeded
from holdfast.jobs.declare.attempt_scope import AttemptScope, TransactionBlock
from holdfast.jobs.exceptions import LostLease
from holdfast.jobs.model import Finished
from holdfast.jobs.store_port import Refusal, TickResult
from holdfast.jobs.worker.run import Run


async def end_transaction(
    run: Run, scope: AttemptScope, report: Finished | None
) -> TickResult | None:
    """Commit `report` with the transaction; None if there is nothing to commit.

    Whether a commit without an answer was done is not known. The attempt has failed then, and the
    store refuses the report of that if the job is complete.

    Args:
        report: that the job is complete; None if the handler did not return.

    Raises:
        Exception: it was rolled back, or the answer to the commit was lost.
    """
    block = scope.block
    assert block is not None
    try:
        if report is None or not block.is_wanted:
            return None
        if run.lost or run.abandoned:
            raise LostLease(run.claim.job_id)
        result = await _committed(run, block, report)
        if result.overruled or any(each.reason is Refusal.LATE for each in result.refused):
            raise DeadlineExceeded(run.kind.name, run.deadline - run.started_at)
        if result.refused:
            raise LostLease(run.claim.job_id)
        return result
    finally:
        await _roll_back(run, block)


async def _committed(run: Run, block: TransactionBlock, report: Finished) -> TickResult:
    run.committing = True
    try:
        result = await block.complete(report)
        run.committing = not (result.refused or result.overruled)
    except BaseException:
        run.committing = False
        raise
    return result


async def _roll_back(run: Run, block: TransactionBlock) -> None:
    """Roll back what is not committed, and release the connection."""
    try:
        await block.rollback()
    except Exception as error:
        # The database rolls back when the connection is closed, at the latest.
        run.context.logger.warning("a transaction could not be rolled back: %s", error)
