"""The tables `submissions` and `grading_results`: their SQL, and their rows as values.

Both databases take the same statements; what differs are the names of tables and the lock on a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from holdfast import Database, DatabaseTransaction
from holdfast_grading.messages import Skill, SubmissionPayload

SERVER_TIME = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
"""Reads the time of a database server, in epoch seconds."""


class Status(StrEnum):
    """Where a submission stands."""

    PENDING = "PENDING"
    """Stored with its message, which is not published yet."""
    PROCESSING = "PROCESSING"
    """Published, and waiting for a worker or its result."""
    COMPLETED = "COMPLETED"
    """Graded in time."""
    FAILED = "FAILED"
    """Not graded, or not in time: then the reason is `TIMEOUT`."""


_TABLES = {
    "sqlite": {
        "submissions": "grading_submissions",
        "results": "grading_results",
        "messages": "holdfast_message_states",
        "boolean": "integer",
        "locked": "",  # a transaction has the write lock of the whole file
    },
    "postgresql": {
        "submissions": "grading.submissions",
        "results": "grading.results",
        "messages": "holdfast.message_states",
        "boolean": "boolean",
        "locked": "FOR UPDATE OF submissions",
    },
}
# A message that was published says so itself, in the same query.
_STATUS = """
    CASE WHEN submissions.status = 'PENDING' AND messages.status = 'published' THEN 'PROCESSING'
    ELSE submissions.status END
"""
_SELECT = """
    SELECT
        submissions.id, submissions.owner, submissions.organisation, submissions.request_id,
        submissions.skill, submissions.payload, {status}, submissions.failure_reason,
        submissions.failure_message, submissions.attempts, submissions.score,
        submissions.created_at, submissions.deadline_at, submissions.completed_at
    FROM {submissions} AS submissions
    LEFT JOIN {messages} AS messages ON messages.message_id = submissions.message_id
"""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission as it is stored. Times are epoch seconds.

    Attributes:
        request_id: as its owner names it; unique among the owner's.
        attempts: how often grading it was tried.
        score: from 0 to 10, once completed.
        completed_at: when it was completed or failed.
    """

    id: str
    owner: str
    organisation: str
    request_id: str
    skill: Skill
    payload: SubmissionPayload
    status: Status
    failure_reason: str | None
    failure_message: str | None
    attempts: int
    score: float | None
    created_at: float
    deadline_at: float
    completed_at: float | None

    @property
    def is_finished(self) -> bool:
        """Whether it is completed or failed."""
        return self.status in {Status.COMPLETED, Status.FAILED}


def submission_of(row: Sequence[Any]) -> Submission:
    """Return a row of `{select}` as a value."""
    values = dict(zip(Submission.__slots__, row, strict=True))
    values["skill"] = Skill(values["skill"])
    values["payload"] = msgspec.json.decode(values["payload"], type=SubmissionPayload)
    values["status"] = Status(values["status"])
    return Submission(**values)


def sql_for(database: Database, statement: str) -> str:
    """Return `statement` for `database`.

    `{submissions}` and `{results}` are the tables, `{select}` reads submissions, `{status}` is
    where one stands, and `{locked}` locks the rows of `{select}`.
    """
    names = _TABLES[database.dialect]
    select = _SELECT.format(status=_STATUS, **names)
    return statement.format(select=select, status=_STATUS, **names)


async def locked(
    database: Database, tx: DatabaseTransaction, submission_id: str
) -> Submission | None:
    """Return a submission, locked until the end of the transaction; None if there is none."""
    query = sql_for(database, "{select} WHERE submissions.id = :id {locked}")
    rows = await tx.fetch(query, {"id": submission_id})
    return submission_of(rows[0]) if rows else None
