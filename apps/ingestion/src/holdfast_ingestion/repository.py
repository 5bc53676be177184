"""The documents in the database: add, list, read, delete, and what an attempt writes.

Each method is one transaction, unless it takes `tx`: then it is part of the caller's.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast import Database, DatabaseTransaction
from holdfast.errors import ERRORS, ErrorCode
from holdfast_ingestion.chunking import Chunk
from holdfast_ingestion.document_state import Document, Stage, failure_metadata
from holdfast_ingestion.extraction.plain_text import normalised
from holdfast_ingestion.metadata import filter_spellings, filter_text
from holdfast_ingestion.queries import load_queries

_CANCELLED = (ErrorCode.CANCELLED, ERRORS[ErrorCode.CANCELLED].message)


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to add; `content` is its text where that needs no extraction."""

    id: str
    organisation: str
    owner: str
    source_key: str
    type: str
    org_id: str = ""
    url: str | None = None
    filename: str | None = None
    title: str | None = None
    media_type: str | None = None
    bytes: int | None = None
    content: str | None = None
    content_hash: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkItem:
    """What an attempt needs to know of its document."""

    type: str
    url: str | None
    filename: str | None
    etag: str | None
    last_modified: str | None
    content: str | None
    content_hash: str | None
    status: str


@dataclass(frozen=True, slots=True)
class NewContent:
    """The text of a document and where it came from, to be stored."""

    text: str
    title: str | None
    media_type: str
    bytes: int
    content_hash: str
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class Validators:
    """What a site gave to ask with the next time, whether there is something newer."""

    etag: str | None
    last_modified: str | None


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which documents are listed; an empty value is no filter."""

    statuses: tuple[Stage, ...] = ()
    org_id: str | None = None
    type: str | None = None
    url: str | None = None
    text: str | None = None
    """A part of the title, the address or the file's name."""
    metadata: tuple[str, ...] = ()
    """Each `key:value`; a document is listed that has all of them."""


class Documents:
    """The documents of all organisations; each method that serves a caller takes the caller's."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.queries = load_queries(database.dialect)

    # -- for callers -----------------------------------------------------------------------------

    async def add(self, tx: DatabaseTransaction, new: NewDocument, now: float) -> bool:
        """Add a document; False where the organisation has one of the same source."""
        values = {name: getattr(new, name) for name in NewDocument.__dataclass_fields__}
        values |= {"metadata": json.dumps(new.metadata, sort_keys=True), "now": now}
        if not await tx.fetch(self.queries["add"], values):
            return False
        rows = [
            {"document": new.id, "key": normalised(key), "value": filter_text(value)}
            for key, value in new.metadata.items()
        ]
        if rows:
            await tx.execute_many(self.queries["add_metadata"], rows)
        return True

    async def by_source(
        self, tx: DatabaseTransaction, organisation: str, source_key: str
    ) -> Document | None:
        """Return the document that was added from this source."""
        rows = await tx.fetch(
            self.queries["by_source"], {"organisation": organisation, "source_key": source_key}
        )
        return Document.from_row(rows[0]) if rows else None

    async def known_sources(self, organisation: str, source_keys: Sequence[str]) -> set[str]:
        """Return those of `source_keys` from which documents were added."""
        known = set()
        for source_key in source_keys:
            wanted = {"organisation": organisation, "source_key": source_key}
            if await self.database.fetch(self.queries["by_source"], wanted):
                known.add(source_key)
        return known

    async def get(self, organisation: str, document_id: str) -> Document | None:
        """Return a document of `organisation`."""
        rows = await self.database.fetch(
            self.queries["get"], {"organisation": organisation, "id": document_id}
        )
        return Document.from_row(rows[0]) if rows else None

    async def content(self, organisation: str, document_id: str) -> str | None:
        """Return the extracted text of a document; None where there is none yet."""
        rows = await self.database.fetch(
            self.queries["content"], {"organisation": organisation, "id": document_id}
        )
        return rows[0][0] if rows else None

    async def excerpt(
        self, organisation: str, document_id: str, most: int
    ) -> tuple[str, int] | None:
        """Return the first `most` characters of a document's text, and how many it has."""
        values = {"organisation": organisation, "id": document_id, "most": most}
        rows = await self.database.fetch(self.queries["excerpt"], values)
        return (rows[0][0], rows[0][1]) if rows else None

    async def page(
        self, organisation: str, where: ListFilter, *, before: str | None, limit: int
    ) -> list[Document]:
        """Return documents older than the one with the id `before`, newest first."""
        values = {
            "organisation": organisation,
            "before": before,
            "org_id": where.org_id,
            "type": where.type,
            "url": where.url,
            "text": where.text,
            "statuses": json.dumps(list(where.statuses)) if where.statuses else None,
            "wanted": json.dumps([filter_spellings(each) for each in where.metadata]),
            "limit": limit,
        }
        rows = await self.database.fetch(self.queries["list"], values)
        return [Document.from_row(row) for row in rows]

    async def counts(self, organisation: str) -> dict[Stage, int]:
        """Return how many documents are in each stage."""
        rows = await self.database.fetch(self.queries["counts"], {"organisation": organisation})
        return {Stage(status): count for status, count in rows}

    async def exists(self, document_id: str) -> bool:
        """Say whether any organisation has this document."""
        return bool(await self.database.fetch(self.queries["exists"], {"id": document_id}))

    async def delete(self, organisation: str, document_id: str) -> bool:
        """Delete a document with its chunks and their words; False where there is none."""
        async with self.database.transaction() as tx:
            which = {"organisation": organisation, "id": document_id}
            if not await tx.fetch(self.queries["delete_document"], which):
                return False
            await tx.fetch(self.queries["delete_metadata"], {"id": document_id})
            await tx.fetch(self.queries["delete_chunks"], {"id": document_id})
        return True

    async def of_owner(self, owner: str) -> list[tuple[str, str]]:
        """Return the organisations and ids of up to 500 documents that `owner` has added."""
        rows = await self.database.fetch(self.queries["of_owner"], {"owner": owner})
        return [(organisation, document_id) for organisation, document_id in rows]

    async def bytes_of_owner(self, owner: str) -> int:
        """Return how many bytes the documents have that `owner` has added."""
        ((total,),) = await self.database.fetch(self.queries["bytes_of_owner"], {"owner": owner})
        return int(total)

    async def requeue(self, tx: DatabaseTransaction, organisation: str, document_id: str) -> bool:
        """Let a new job take over a failed document whose job's record is gone."""
        which = {"organisation": organisation, "id": document_id}
        return bool(await tx.fetch(self.queries["requeue"], which))

    async def begin_refresh(self, document_id: str, job: str) -> None:
        """Note the job of a refresh, so that its failure can be noted too."""
        async with self.database.transaction() as tx:
            await tx.fetch(self.queries["begin_refresh"], {"id": document_id, "job": job})

    # -- for attempts ----------------------------------------------------------------------------

    async def work_item(self, document_id: str) -> WorkItem | None:
        """Return what an attempt needs; None where the document was deleted."""
        rows = await self.database.fetch(self.queries["work"], {"id": document_id})
        return WorkItem(*rows[0]) if rows else None

    async def reopen(self, document_id: str, token: int) -> bool:
        """Note that a person has retried a failed document; False for an attempt of before."""
        async with self.database.transaction() as tx:
            values = {"id": document_id, "token": token}
            return bool(await tx.fetch(self.queries["reopen"], values))

    async def keep(self, document_id: str, found: NewContent, token: int, now: float) -> None:
        """Keep the text of a document that could not be indexed, unless the lease is lost."""
        values = {**_content_values(found), "id": document_id, "token": token, "now": now}
        async with self.database.transaction() as tx:
            await tx.fetch(self.queries["save_content"], values)

    async def finish(
        self,
        tx: DatabaseTransaction,
        document_id: str,
        found: NewContent | None,
        chunks: Sequence[Chunk],
        values: Mapping[str, Any],
    ) -> bool:
        """Store the text and its chunks, and mark the document done.

        Return False where it is gone, or not this attempt's turn.

        Args:
            found: the text, unless it is stored already.
            values: token, attempts, now and processing_metadata.
        """
        row = {**values, "id": document_id, "chunks": len(chunks)}
        query = self.queries["finish"]
        if found is not None:
            row |= _content_values(found)
            query = self.queries["finish_with_content"]
        if not await tx.fetch(query, row):
            return False
        await self._add_chunks(tx, document_id, chunks)
        return True

    async def renew(
        self,
        tx: DatabaseTransaction,
        document_id: str,
        found: NewContent,
        chunks: Sequence[Chunk],
        values: Mapping[str, Any],
    ) -> bool:
        """Replace the content of a done document; False where it has changed meanwhile.

        `values` are seen_hash, now and processing_metadata.
        """
        row = {**_content_values(found), **values, "id": document_id, "chunks": len(chunks)}
        if not await tx.fetch(self.queries["renew"], row):
            return False
        await tx.fetch(self.queries["delete_chunks"], {"id": document_id})
        await self._add_chunks(tx, document_id, chunks)
        return True

    async def checked(
        self, tx: DatabaseTransaction, document_id: str, now: float, validators: Validators
    ) -> None:
        """Note that a refresh found nothing new, and what to ask with the next time."""
        values = {
            "id": document_id,
            "now": now,
            "etag": validators.etag,
            "last_modified": validators.last_modified,
        }
        await tx.fetch(self.queries["checked"], values)

    async def _add_chunks(
        self, tx: DatabaseTransaction, document_id: str, chunks: Sequence[Chunk]
    ) -> None:
        rows = [
            {
                "document": document_id,
                "position": position,
                "start": chunk.start,
                "end": chunk.end,
                "text": chunk.text,
            }
            for position, chunk in enumerate(chunks)
        ]
        await tx.execute_many(self.queries["add_chunk"], rows)

    # -- for the worker --------------------------------------------------------------------------

    async def lost_with_worker(self) -> list[str]:
        """Return the documents whose last attempt was lost and that are to be retried."""
        rows = await self.database.fetch(self.queries["lost_with_worker"])
        return [document_id for (document_id,) in rows]

    async def settle(self, among: Collection[str] | None = None) -> list[str]:
        """Copy the outcome of failed jobs into their documents; return the documents' ids.

        Args:
            among: look at these documents only; by default at all that are not settled.
        """
        if among is None:
            failed = await self.database.fetch(self.queries["unsettled"])
        else:
            ids = json.dumps(sorted(among))
            failed = await self.database.fetch(self.queries["unsettled_among"], {"ids": ids})
        if not failed:
            return []
        settled = []
        async with self.database.transaction() as tx:
            for document_id, status, token, attempts, code, error, finished_at in failed:
                why = (code, error) if status == "failed" else _CANCELLED
                values = {
                    "id": document_id,
                    "token": token,
                    "attempts": attempts,
                    "error_code": str(why[0]),
                    "error": why[1],
                    "processing_metadata": json.dumps(failure_metadata(*why)),
                    "finished_at": finished_at,
                }
                if await tx.fetch(self.queries["fail"], values):
                    settled.append(document_id)
        return settled

    async def settle_refreshes(self) -> None:
        """Copy the outcome of failed refreshes into their documents."""
        failed = await self.database.fetch(self.queries["failed_refreshes"])
        if not failed:
            return
        async with self.database.transaction() as tx:
            for document_id, job, code, error, failed_at in failed:
                values = {
                    "id": document_id,
                    "job": job,
                    "code": code or str(ErrorCode.UNKNOWN),
                    "error": error or "",
                    "failed_at": failed_at,
                }
                await tx.fetch(self.queries["fail_refresh"], values)


def _content_values(found: NewContent) -> dict[str, Any]:
    return {
        "content": found.text,
        "content_hash": found.content_hash,
        "title": found.title,
        "media_type": found.media_type,
        "bytes": found.bytes,
        "etag": found.etag,
        "last_modified": found.last_modified,
    }
