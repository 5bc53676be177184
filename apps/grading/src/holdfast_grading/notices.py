"""Notices of changed submissions, for the live stream of their owners.

The stream at `/api/events` has the events of its owner's jobs. A notice is a job that does nothing:
its being there is the event. It is committed with the change that it speaks of.
"""

from holdfast import DatabaseTransaction, Engine
from holdfast_grading.tables import Status, Submission

NOTICE = "grading.notify"
"""The kind of the job."""


async def notify(
    engine: Engine,
    tx: DatabaseTransaction,
    submission: Submission,
    status: Status,
    reason: str | None = None,
) -> None:
    """Let the owner's stream say, once `tx` has committed, that `submission` is now `status`."""
    meta = {"submissionId": submission.id, "status": status.value, "failureReason": reason}
    await engine.enqueue(
        NOTICE,
        owner=submission.owner,
        meta=meta,
        connection=tx.connection,
        # The change that it speaks of has happened.
        beyond_limits=True,
    )
