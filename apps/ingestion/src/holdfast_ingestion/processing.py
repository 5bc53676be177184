"""Process a document: fetch or read it, extract its text, index it.

The text, its chunks, the state `done` and the job's completion commit together. Where indexing
fails, the text is stored by itself, so that the next attempt goes on from there.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast import (
    Clock,
    DatabaseTransaction,
    JobContext,
    Permanent,
    StoreError,
)
from holdfast.fetch import Fetched, Fetcher, FetchError
from holdfast.files import ArtifactStore
from holdfast_ingestion.chunking import Chunk, split
from holdfast_ingestion.document_state import Stage
from holdfast_ingestion.error_codes import UNSUPPORTED_TYPE
from holdfast_ingestion.extraction.extractor import Extractor
from holdfast_ingestion.extraction.plain_text import one_line
from holdfast_ingestion.follow_up import FollowUp
from holdfast_ingestion.formats import Format, format_of_media_type
from holdfast_ingestion.job_values import DocumentArgs, Indexed, host_key
from holdfast_ingestion.repository import Documents, NewContent, Validators, WorkItem
from holdfast_ingestion.sites import OtherSiteFailed, report_call
from holdfast_ingestion.stage_reports import StageReports
from holdfast_ingestion.uploads import read_upload

_log = logging.getLogger("holdfast.ingestion")
_SKIPPED = Indexed("skipped")
_LONGEST_WAIT = 3600.0
"""Seconds that a site can ask to wait; else a document could stay queued for a year."""
_SHORT = 10_000
"""Characters; a text below that is cut in a tenth of a millisecond."""


@dataclass(frozen=True, slots=True)
class Processor:
    """What attempts of one worker share; `follow_ups` begin with the completion of a document."""

    fetcher: Fetcher
    extractor: Extractor
    files: ArtifactStore
    clock: Clock
    follow_ups: Sequence[FollowUp[Any]] = ()

    async def process(self, ctx: JobContext, args: DocumentArgs) -> Indexed:
        """Run one attempt of the job `doc-<id>`."""
        documents, document_id = Documents(ctx.database), args.document_id
        _log.info(
            "[queue-worker] Processing job { jobId: '%s', documentId: '%s', orgId: '%s', "
            "attempt: %d }",
            *(ctx.job_id, document_id, args.organisation, ctx.attempt),
            extra={"job_id": ctx.job_id, "attempt": ctx.attempt},
        )
        item = await documents.work_item(document_id)
        if item is None or not await _is_due(documents, item, ctx, document_id):
            _log.info(
                "[queue-worker] Document already processed, skipping { documentId: '%s' }",
                document_id,
            )
            return _SKIPPED
        with StageReports(ctx) as stages:
            return await self._process(ctx, args, item, stages)

    async def _process(
        self, ctx: JobContext, args: DocumentArgs, item: WorkItem, stages: StageReports
    ) -> Indexed:
        if item.content is not None:
            return await self._index(ctx, args, stages, item.content)
        found = await self._read(ctx, args, item, stages)
        try:
            return await self._index(ctx, args, stages, found.text, found)
        except Exception:
            with contextlib.suppress(StoreError):  # then the next attempt reads it again
                documents = Documents(ctx.database)
                await documents.keep(args.document_id, found, ctx.token, self.clock.wall())
            raise

    async def refresh(self, ctx: JobContext, args: DocumentArgs) -> Indexed:
        """Fetch a done document again if its site has a newer one, and index that."""
        documents, document_id = Documents(ctx.database), args.document_id
        item = await documents.work_item(document_id)
        if item is None or item.status != "done" or item.url is None:
            return _SKIPPED
        await documents.begin_refresh(document_id, ctx.job_id)
        with StageReports(ctx) as stages:
            stages.enter(Stage.FETCHING)
            fetched = await self._fetch(ctx, args.host, item)
            same = fetched.not_modified or _hash(fetched.body) == item.content_hash
            found = None if same else await self._extracted(stages, fetched)
        chunks = [] if found is None else await _chunks(found.text)
        async with ctx.transaction(ctx.database) as tx:
            now = self.clock.wall()
            if found is None:
                await documents.checked(tx, document_id, now, _validators(fetched, item))
                return Indexed("unchanged")
            values = {
                "seen_hash": item.content_hash,
                "now": now,
                "processing_metadata": _metadata(chunks),
            }
            renewed = await documents.renew(tx, document_id, found, chunks, values)
            if renewed:
                await self._follow_up(ctx, tx, document_id)
        return Indexed("indexed", len(chunks)) if renewed else _SKIPPED

    # -- reading -------------------------------------------------------------------------------

    async def _read(
        self, ctx: JobContext, args: DocumentArgs, item: WorkItem, stages: StageReports
    ) -> NewContent:
        if item.url is not None:
            stages.enter(Stage.FETCHING)
            return await self._extracted(stages, await self._fetch(ctx, args.host, item))
        stages.enter(Stage.EXTRACTING)
        data = await asyncio.to_thread(read_upload, self.files, args.document_id)
        text = await self.extractor.extract(data, Format(item.type), None)
        return NewContent(
            text=text.text,
            title=text.title or item.filename,
            media_type=Format(item.type).media_type,
            bytes=len(data),
            content_hash=_hash(data),
        )

    async def _fetch(self, ctx: JobContext, host: str, item: WorkItem) -> Fetched:
        """Return what a document's address answers, if newer than what is stored.

        Raises:
            OtherSiteFailed: a site failed to which the document's own has redirected.
            FetchError: the document's own site failed, or another try cannot help.
        """
        assert item.url is not None
        try:
            fetched = await self.fetcher.get(
                item.url, etag=item.etag, last_modified=item.last_modified
            )
        except FetchError as error:
            if error.retry_after is not None:
                error.retry_after = min(error.retry_after, _LONGEST_WAIT)
            if error.permanent or error.site is None or host_key(error.site) == host:
                raise
            await report_call(ctx, host_key(error.site), error.code)
            raise OtherSiteFailed.of(error) from error
        if (answered := host_key(urlsplit(fetched.url).netloc)) != host:
            await report_call(ctx, answered)
        return fetched

    async def _extracted(self, stages: StageReports, fetched: Fetched) -> NewContent:
        """Return the text of what was fetched.

        Raises:
            Permanent: its type is not supported, or there is no text in it.
        """
        stages.enter(Stage.EXTRACTING)
        chosen = format_of_media_type(fetched.content_type)
        if chosen is None:
            line = f"Documents of the type {fetched.content_type} cannot be read."
            raise Permanent(UNSUPPORTED_TYPE, line)
        text = await self.extractor.extract(fetched.body, chosen, fetched.charset)
        return NewContent(
            text=text.text,
            title=text.title or _name_in(fetched.url),
            media_type=fetched.content_type,
            bytes=len(fetched.body),
            content_hash=_hash(fetched.body),
            etag=fetched.etag,
            last_modified=fetched.last_modified,
        )

    # -- indexing ------------------------------------------------------------------------------

    async def _index(
        self,
        ctx: JobContext,
        args: DocumentArgs,
        stages: StageReports,
        text: str,
        found: NewContent | None = None,
    ) -> Indexed:
        """Store the chunks of `text`, and with them what was `found` unless that is stored."""
        stages.enter(Stage.INDEXING)
        documents, document_id = Documents(ctx.database), args.document_id
        chunks = await _chunks(text)
        values = {
            "token": ctx.token,
            "attempts": ctx.attempt,
            "now": self.clock.wall(),
            "processing_metadata": _metadata(chunks),
        }
        async with ctx.transaction(ctx.database) as tx:
            stored = await documents.finish(tx, document_id, found, chunks, values)
            if stored:
                await self._follow_up(ctx, tx, document_id)
        # Deleted meanwhile: there is nothing left to index.
        return Indexed("indexed", len(chunks)) if stored else _SKIPPED

    async def _follow_up(self, ctx: JobContext, tx: DatabaseTransaction, document_id: str) -> None:
        for each in self.follow_ups:
            await each.begin(ctx, tx, document_id)


async def _chunks(text: str) -> list[Chunk]:
    """Return the pieces of `text`; only a long one is worth the way to a thread and back."""
    return split(text) if len(text) < _SHORT else await asyncio.to_thread(split, text)


async def _is_due(documents: Documents, item: WorkItem, ctx: JobContext, document_id: str) -> bool:
    """Say whether this attempt has work to do; see `document_state` about tokens."""
    if item.status == "failed":
        return await documents.reopen(document_id, ctx.token)
    return item.status == "queued"


def _validators(fetched: Fetched, item: WorkItem) -> Validators:
    """Return the validators of an answer with nothing new: a 304 need not repeat them."""
    if not fetched.not_modified:
        return Validators(fetched.etag, fetched.last_modified)
    return Validators(fetched.etag or item.etag, fetched.last_modified or item.last_modified)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _metadata(chunks: list[Chunk]) -> str:
    return json.dumps({"chunks": len(chunks)})


def _name_in(url: str) -> str:
    """Return what a page without a title is called: the last part of its address, or the host."""
    parts = urlsplit(url)
    return one_line(unquote(parts.path.rstrip("/").rpartition("/")[2])) or parts.netloc
