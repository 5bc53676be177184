"""The JSON of the routes below `/v3`: camelCase, timestamps in ISO 8601 and UTC."""

from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast_ingestion.document_state import Document, Stage, State
from holdfast_ingestion.job_values import job_id


class Model(BaseModel):
    """Fields in snake_case here, in camelCase in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class DocumentIn(Model):
    """A document to add: `url` or `content`; an unknown field is refused."""

    model_config = ConfigDict(extra="forbid")

    url: str | None = Field(default=None, description="An http or https address to fetch.")
    content: str | None = Field(default=None, description="The document itself.")
    type: str | None = Field(
        default=None, description="`url`; or that of the content: `text`, `markdown` or `html`."
    )
    org_id: str | None = Field(default=None, description="A part of the caller's organisation.")
    title: str | None = None
    metadata: dict[str, Any] | None = Field(
        default=None, description="The caller's own, to filter by."
    )


class BatchIn(Model):
    """Documents to add, all or none."""

    model_config = ConfigDict(extra="forbid")

    documents: list[DocumentIn] = Field(min_length=1, max_length=100)


class TakenOut(Model):
    """A document that was taken in; `deduplicated` where the same was there before."""

    id: str
    status: Stage
    deduplicated: bool = False


class BatchOut(Model):
    """The documents of a batch, in its order."""

    documents: list[TakenOut]


class RefreshErrorOut(Model):
    """Why a refresh failed, and when."""

    code: str
    message: str
    failed_at: datetime

    @classmethod
    def of(cls, document: Document) -> Self | None:
        """Return how the last refresh of `document` failed; None where it did not."""
        if document.refresh_code is None:
            return None
        return cls(
            code=document.refresh_code,
            message=document.refresh_error or "",
            failed_at=_moment(document.refresh_failed_at),
        )


class DocumentOut(Model):
    """A document as its organisation sees it."""

    id: str
    status: Stage
    state: State
    progress: float | None
    attempts_made: int
    failed_reason: str | None
    failed_code: str | None
    processing_metadata: dict[str, Any]
    type: str
    url: str | None
    filename: str | None
    title: str | None
    content_type: str | None
    bytes: int | None
    chunks: int
    org_id: str | None
    metadata: dict[str, Any]
    job_id: str
    created_at: datetime
    checked_at: datetime | None
    finished_at: datetime | None
    refresh_error: RefreshErrorOut | None

    @classmethod
    def of(cls, document: Document) -> Self:
        """Return `document` for the wire."""
        code, reason = document.failure or (None, None)
        return cls(
            id=document.id,
            status=document.status,
            state=document.state,
            progress=document.progress,
            attempts_made=document.attempts_made,
            failed_reason=reason,
            failed_code=code,
            processing_metadata=document.processing_metadata,
            type=document.type,
            url=document.url,
            filename=document.filename,
            title=document.title,
            content_type=document.media_type,
            bytes=document.bytes,
            chunks=document.chunks,
            org_id=document.org_id or None,
            metadata=document.metadata,
            job_id=job_id(document.id),
            created_at=_moment(document.created_at),
            checked_at=_moment(document.checked_at),
            finished_at=_moment(document.finished_at),
            refresh_error=RefreshErrorOut.of(document),
        )


class DocumentsOut(Model):
    """A page of documents, newest first."""

    documents: list[DocumentOut]
    next_cursor: str | None


class ContentOut(Model):
    """The text of a document; null until it is extracted."""

    id: str
    content: str | None


class RefreshOut(Model):
    """A document that is fetched again by the job `jobId`, left out if it is not the caller's."""

    id: str
    status: Stage
    job_id: str | None = None


def _moment(seconds: float | None) -> Any:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
