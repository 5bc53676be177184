"""One tick of a worker in one transaction: record what finished, then claim what comes next."""

from collections.abc import Sequence

from holdfast.jobs.model import Claim, Finished
from holdfast.jobs.store_port import ClaimRequest, FailedJob, TickResult
from holdfast.store.sqlite import clock_jumps
from holdfast.store.sqlite.claim import ClaimBatch, Turns
from holdfast.store.sqlite.enqueue import enqueue
from holdfast.store.sqlite.finish import FinishBatch
from holdfast.store.sqlite.transaction import Transaction


def tick(
    tx: Transaction,
    worker_id: str,
    finished: Sequence[Finished],
    request: ClaimRequest | None,
    turns: Turns,
) -> TickResult:
    """Do the tick; the caller fills in `mark` after the commit."""
    finish = FinishBatch(tx)
    finish.run(finished)
    if finish.jobs:
        enqueue(tx, finish.jobs)
    claims: tuple[Claim, ...] = ()
    timed_out: tuple[FailedJob, ...] = ()
    wake_at = None
    if request is not None:
        clock_jumps.follow(tx)
        # A claim reads the counters that finishing has changed.
        tx.flush()
        claim = ClaimBatch(tx, request, worker_id, turns)
        claims = claim.run()
        timed_out, wake_at = tuple(claim.timed_out), claim.wake_at
    return TickResult(
        claims=claims,
        refused=tuple(finish.refused),
        overruled=tuple(finish.overruled),
        moved=tuple(tx.moved),
        timed_out=timed_out,
        wake_at=wake_at,
        mark=0,
        now=tx.now,
    )
