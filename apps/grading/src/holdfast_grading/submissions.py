"""Take submissions in, list them, and count what was achieved.

A submission and the message that asks for its grading are committed together, so a submission is
never without its message, and one that is rolled back is never published.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast import Engine, HoldfastError
from holdfast_grading.messages import (
    REQUEST,
    GradingRequest,
    Skill,
    SubmissionPayload,
    moment,
    request_id_of,
)
from holdfast_grading.tables import SERVER_TIME, Status, Submission, sql_for, submission_of

_ADD = """
    INSERT INTO {submissions} (
        id, owner, organisation, request_id, skill, payload, created_at, deadline_at
    ) VALUES (
        :id, :owner, :organisation, :request_id, :skill, :payload, :created_at, :deadline_at
    )
    ON CONFLICT (owner, request_id) DO NOTHING
    RETURNING id
"""
_SENT_BY = "UPDATE {submissions} SET message_id = :message WHERE id = :id"
_BY_ID = "{select} WHERE submissions.id = :id"
_EXISTS = "SELECT id FROM {submissions} WHERE id = :id"
_BY_REQUEST = """{select}
    WHERE submissions.owner = :owner AND submissions.request_id = :request_id
"""
_PAGE = """{select}
    WHERE submissions.owner = :owner
        AND (CAST(:before AS text) IS NULL OR submissions.id < :before)
        AND (CAST(:skill AS text) IS NULL OR submissions.skill = :skill)
        AND (CAST(:status AS text) IS NULL OR {status} = :status)
    ORDER BY submissions.id DESC
    LIMIT :limit
"""
_RESULTS = """
    SELECT is_late, received_at, result FROM {results}
    WHERE submission_id = :id ORDER BY received_at
"""
_PROGRESS = """
    SELECT skill, count(*), avg(score) FROM {submissions}
    WHERE owner = :owner AND status = 'COMPLETED' GROUP BY skill ORDER BY skill
"""
_COUNT_ATTEMPT = """
    UPDATE {submissions} SET status = 'PROCESSING', attempts = :attempt
    WHERE id = :id AND status IN ('PENDING', 'PROCESSING') AND attempts < :attempt
    RETURNING id
"""


@dataclass(frozen=True, slots=True)
class NewSubmission:
    """A submission to take in.

    Attributes:
        request_id: the owner's name for it; the same again is the same submission.
        seconds: in which it must be graded.
        id: of `Submissions.new_id`; None lets it get one.
    """

    owner: str
    organisation: str
    skill: Skill
    payload: SubmissionPayload
    seconds: float
    request_id: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result that arrived, at `received_at` in epoch seconds; a late one counts nowhere."""

    is_late: bool
    received_at: float
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SkillProgress:
    """How many submissions of a skill were completed, and their mean score."""

    skill: Skill
    count: int
    mean_score: float


async def store_time(engine: Engine) -> float:
    """Return the time that decides deadlines, in epoch seconds: the database server's, if any."""
    if engine.database.dialect == "sqlite":
        return engine.clock.wall()
    ((now,),) = await engine.database.fetch(SERVER_TIME)
    return float(now)


class Submissions:
    """The submissions in the database of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._database = engine.database

    async def add(self, new: NewSubmission, *, now: float | None = None) -> tuple[Submission, bool]:
        """Store a submission with its message; return it, and False if it was there before."""
        created = await store_time(self._engine) if now is None else now
        identifier = new.id or _new_id(created)
        named = new.request_id or secrets.token_hex(16)
        request = GradingRequest(
            request_id=request_id_of(identifier, named),
            submission_id=identifier,
            skill=new.skill,
            payload=new.payload,
            deadline_at=moment(created + new.seconds),
        )
        row = {
            "id": identifier,
            "owner": new.owner,
            "organisation": new.organisation,
            "request_id": named,
            "skill": new.skill.value,
            "payload": msgspec.json.encode(new.payload).decode(),
            "created_at": created,
            # As the message has it, which is rounded to microseconds.
            "deadline_at": request.deadline_at.timestamp(),
        }
        async with self._database.transaction() as tx:
            is_new = bool(await tx.fetch(sql_for(self._database, _ADD), row))
            if is_new:
                message = await self._engine.outbox.add(
                    tx.connection, identifier, REQUEST, request.to_json(),
                    headers={"owner": new.owner},
                )  # fmt: skip
                sent = {"id": identifier, "message": message}
                await tx.fetch(sql_for(self._database, _SENT_BY), sent)
        found = await self._one(_BY_REQUEST, row)
        if found is None:
            raise HoldfastError("the submission was deleted in the moment in which it was added")
        return found, is_new

    async def new_id(self) -> str:
        """Return an id for a submission, for what is stored under it before its row."""
        return _new_id(await store_time(self._engine))

    async def exists(self, submission_id: str) -> bool:
        """Say whether there is a submission with this id, of any owner."""
        query = sql_for(self._database, _EXISTS)
        return bool(await self._database.fetch(query, {"id": submission_id}))

    async def of_request(self, owner: str, request_id: str | None) -> Submission | None:
        """Return the submission that `owner` has named so; None if there is none."""
        return await self._one(_BY_REQUEST, {"owner": owner, "request_id": request_id})

    async def get(self, owner: str, submission_id: str) -> Submission | None:
        """Return a submission of `owner`; None if there is none."""
        found = await self.find(submission_id)
        return found if found is not None and found.owner == owner else None

    async def find(self, submission_id: str) -> Submission | None:
        """Return a submission of any owner; None if there is none."""
        return await self._one(_BY_ID, {"id": submission_id})

    async def _one(self, statement: str, values: dict[str, Any]) -> Submission | None:
        rows = await self._database.fetch(sql_for(self._database, statement), values)
        return submission_of(rows[0]) if rows else None

    async def page(
        self,
        owner: str,
        *,
        skill: Skill | None = None,
        status: Status | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Submission]:
        """Return submissions of `owner`, newest first; `before` is the id of the last one shown."""
        values = {
            "owner": owner,
            "before": before,
            "skill": None if skill is None else skill.value,
            "status": None if status is None else status.value,
            "limit": limit,
        }
        rows = await self._database.fetch(sql_for(self._database, _PAGE), values)
        return [submission_of(row) for row in rows]

    async def results(self, submission_id: str) -> Sequence[StoredResult]:
        """Return the results of a submission in the order in which they arrived."""
        query = sql_for(self._database, _RESULTS)
        rows = await self._database.fetch(query, {"id": submission_id})
        return [StoredResult(bool(late), at, msgspec.json.decode(text)) for late, at, text in rows]

    async def progress(self, owner: str) -> Sequence[SkillProgress]:
        """Return what `owner` has achieved in each skill; late results do not count."""
        rows = await self._database.fetch(sql_for(self._database, _PROGRESS), {"owner": owner})
        return [SkillProgress(Skill(skill), count, mean) for skill, count, mean in rows]

    async def count_attempt(self, submission_id: str, attempt: int) -> bool:
        """Note that the attempt of this number was made; False if it is finished or was noted."""
        async with self._database.transaction() as tx:
            values = {"id": submission_id, "attempt": attempt}
            return bool(await tx.fetch(sql_for(self._database, _COUNT_ATTEMPT), values))


def _new_id(now: float) -> str:
    # Grows with time: lists are in the order of ids.
    return f"{int(now * 1000):012x}{secrets.token_hex(10)}"
