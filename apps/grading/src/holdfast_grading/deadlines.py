"""Fail submissions whose deadline is over: `FAILED` with `TIMEOUT`, and a notice for the owner.

It runs as a periodic job, which the fleet runs once for each slot, however many workers there are.
"""

from collections.abc import Sequence

from holdfast import Engine
from holdfast_grading.callbacks import TIMEOUT
from holdfast_grading.notices import notify
from holdfast_grading.submissions import store_time
from holdfast_grading.tables import Status, Submission, sql_for, submission_of

AT_ONCE = 200
"""Submissions of one transaction."""
_OVERDUE = """{select}
    WHERE submissions.status IN ('PENDING', 'PROCESSING') AND submissions.deadline_at < :now
    ORDER BY submissions.deadline_at
    LIMIT :limit
"""
_TIME_OUT = """
    UPDATE {submissions} SET status = 'FAILED', failure_reason = :reason, completed_at = :now
    WHERE id = :id AND status IN ('PENDING', 'PROCESSING')
    RETURNING id
"""


async def expire(engine: Engine, *, now: float | None = None) -> int:
    """Fail what is past its deadline; return how many.

    Args:
        engine: has the grading app among its apps.
        now: epoch seconds; None is the store's time.
    """
    moment = await store_time(engine) if now is None else now
    total = 0
    while True:
        query, values = sql_for(engine.database, _OVERDUE), {"now": moment, "limit": AT_ONCE}
        overdue = [submission_of(row) for row in await engine.database.fetch(query, values)]
        if not overdue:
            return total
        total += await _time_out(engine, overdue, moment)


async def _time_out(engine: Engine, overdue: Sequence[Submission], now: float) -> int:
    """Fail those that are still unfinished; return how many."""
    count = 0
    async with engine.database.transaction() as tx:
        for submission in overdue:
            values = {"id": submission.id, "now": now, "reason": TIMEOUT}
            if await tx.fetch(sql_for(engine.database, _TIME_OUT), values):
                await notify(engine, tx, submission, Status.FAILED, TIMEOUT)
                count += 1
    return count
