"""A document as it is read, and how its state follows from its row and from its job's record.

A document's row says `done` from the commit that also completes its job and stores its chunks.
Until then the document belongs to its job `doc-<id>`: how far it is, how often it was tried and why
it failed is read from the job's record, in the same query. So the two cannot disagree, whatever
ended the job: the last attempt, a lost lease, a deadline or a person.

Failed jobs are deleted after a day, and documents are not. So the outcome of a failed job is copied
into the row soon after (`Documents.settle`). The copy is not needed while the job's record exists,
and it says with which lease token the job failed. An attempt with a later token belongs to a manual
retry and goes on. One with the same or an earlier token is skipped: a new job under the same id
that was enqueued past the retry.
"""

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from holdfast.errors import ERRORS, ErrorCode
from holdfast_ingestion.metadata import stored_metadata

_FORGOTTEN = "The record of this document's job was removed before its outcome was stored."


State = Literal["waiting", "delayed", "active", "completed", "failed"]
"""The states of a job in BullMQ."""


class Stage(StrEnum):
    """How far a document is; `status` in the API."""

    QUEUED = "queued"
    FETCHING = "fetching"
    EXTRACTING = "extracting"
    INDEXING = "indexing"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What a document's query reads from its job's record. Times are epoch seconds."""

    status: str
    attempts: int
    ready_at: float | None
    last_attempt_at: float | None
    progress: float | None
    error_code: str | None
    error: str | None
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it is listed: without its content. Times are epoch seconds.

    `settled_…` is what the row itself says, `job` the record of its job, None where it is gone.
    `refresh_…` says how the last refresh failed, unless a good one came after it.
    """

    id: str
    org_id: str
    type: str
    url: str | None
    filename: str | None
    title: str | None
    media_type: str | None
    bytes: int | None
    metadata: dict[str, Any]
    chunks: int
    settled_status: str
    settled_attempts: int
    settled_code: str | None
    settled_error: str | None
    settled_metadata: dict[str, Any]
    created_at: float
    checked_at: float | None
    settled_at: float | None
    refresh_code: str | None
    refresh_error: str | None
    refresh_failed_at: float | None
    status: Stage
    job: JobRecord | None

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> "Document":
        """Return the document of a row of `{{columns}}`."""
        values = dict(zip(_COLUMNS, row, strict=False))
        values["metadata"] = stored_metadata(values["metadata"])
        values["settled_metadata"] = json.loads(values["settled_metadata"])
        record = row[len(_COLUMNS) :]
        job = None if record[0] is None else JobRecord(*record)
        return cls(**{**values, "status": Stage(values["status"])}, job=job)

    @property
    def state(self) -> State:
        """The state of its job in the words of BullMQ, also where the job's record is gone."""
        if self.status is Stage.DONE:
            return "completed"
        if self.status is Stage.FAILED:
            return "failed"
        if self.job is None or self.job.status == "processing":
            return "active"
        ready, last = self.job.ready_at, self.job.last_attempt_at
        waits_for_retry = ready is not None and last is not None and ready >= last
        return "delayed" if waits_for_retry else "waiting"

    @property
    def attempts_made(self) -> int:
        """Attempts that were begun, since it was added or last retried by a person."""
        if self.job is None or self.status is Stage.DONE:
            return self.settled_attempts
        return self.job.attempts

    @property
    def failure(self) -> tuple[str, str] | None:
        """Why it failed: an error code and a line for people; None unless it has failed."""
        if self.status is not Stage.FAILED:
            return None
        job = self.job
        if job is not None and job.status == "failed":
            return job.error_code or ErrorCode.UNKNOWN, job.error or ""
        if job is not None and job.status == "cancelled":
            return ErrorCode.CANCELLED, ERRORS[ErrorCode.CANCELLED].message
        if self.settled_error is not None:
            return self.settled_code or ErrorCode.UNKNOWN, self.settled_error
        return ErrorCode.EXPIRED, _FORGOTTEN

    @property
    def processing_metadata(self) -> dict[str, Any]:
        """What is known of its processing: `error` and `code` where it failed."""
        return self.settled_metadata if self.failure is None else failure_metadata(*self.failure)

    @property
    def progress(self) -> float | None:
        """How much of the work is done, from 0 to 1, while an attempt runs."""
        if self.status is Stage.DONE:
            return 1.0
        running = self.job is not None and self.job.status == "processing"
        return self.job.progress if running and self.job is not None else None

    @property
    def finished_at(self) -> float | None:
        """When it became done or failed."""
        if self.status is Stage.FAILED and self.job is not None and self.job.finished_at:
            return self.job.finished_at
        return self.settled_at if self.status in {Stage.DONE, Stage.FAILED} else None


def failure_metadata(code: str, message: str) -> dict[str, Any]:
    """Return the `processingMetadata` of a document that failed."""
    return {"error": message, "code": str(code)}


_COLUMNS = tuple(each.name for each in fields(Document))[:-1]
"""The fields that a row begins with; those of the job's record follow."""
