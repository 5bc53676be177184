"""Take documents in, delete them, retry and refresh them: a row and its job in one transaction."""

import asyncio
import contextlib
import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast import (
    DatabaseTransaction,
    ErrorCode,
    InvalidState,
    JobHandle,
    JobRequest,
    StorageExceeded,
    TooManyJobs,
    UnknownJob,
)
from holdfast.fetch import Fetcher
from holdfast.files import ArtifactStore, Draft
from holdfast.http import ApiError, CallerIdentity, ServerState
from holdfast_ingestion.document_state import Document, Stage
from holdfast_ingestion.formats import Format
from holdfast_ingestion.job_values import DocumentArgs, host_key, job_id
from holdfast_ingestion.repository import Documents, NewDocument
from holdfast_ingestion.settings import IngestionSettings
from holdfast_ingestion.submission import URL_TYPE, Submission
from holdfast_ingestion.uploads import upload_name

DOCUMENT_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to one submission.

    `created` is False where the same was there before; `is_retried` where that one had failed.
    """

    id: str
    status: Stage
    created: bool
    is_retried: bool = False


class Intake:
    """Change documents for their organisations.

    Args:
        settings: the limits.
        fetcher: checks addresses; nothing is fetched with it.
        files: where uploads are kept.
        jobs: the declared jobs `process` and `refresh`.
        state: the server's, for its engine and clock.
    """

    def __init__(
        self,
        settings: IngestionSettings,
        fetcher: Fetcher,
        files: ArtifactStore,
        jobs: tuple[Any, Any],
        state: ServerState,
    ) -> None:
        self.settings = settings
        self.fetcher = fetcher
        self._files = files
        self._process, self._refresh = jobs
        self._state = state
        self._engine = state.engine

    @property
    def documents(self) -> Documents:
        """The documents in the server's database."""
        return Documents(self._engine.database)

    async def find(self, document_id: str, caller: CallerIdentity) -> Document:
        """Return a document of the caller's organisation.

        Raises:
            ApiError: there is none; those of others look as if they did not exist.
        """
        found = None
        if DOCUMENT_ID.fullmatch(document_id):
            found = await self.documents.get(caller.organisation, document_id)
        if found is None:
            raise ApiError(ErrorCode.FORBIDDEN, "There is no such document, or it is not yours.")
        return found

    # -- adding --------------------------------------------------------------------------------

    async def add(self, submissions: Sequence[Submission], caller: CallerIdentity) -> list[Taken]:
        """Take documents in, all or none; one that failed before is retried.

        Raises:
            ApiError: nothing is taken in just now, or a file could not be stored.
            TooManyJobs, StorageExceeded: the caller's limits have no room for those that are new.
        """
        with_files = any(submission.file is not None for submission in submissions)
        await self._state.intake.check(writes_files=with_files)
        # In a thread: to hash a long text takes a while.
        new = await asyncio.to_thread(self._new, submissions, caller)
        async with self._engine.owners.turn(caller.owner):
            await self._check_limits(new, caller)
            return await self._add(new, submissions, caller)

    async def _add(
        self, new: Sequence[NewDocument], submissions: Sequence[Submission], caller: CallerIdentity
    ) -> list[Taken]:
        """Store `new`, one document for each submission, and retry those that failed before."""
        outcomes: dict[int, Taken] = {}
        again: dict[str, Document] = {}
        with contextlib.ExitStack() as drafts:
            for document, submission in zip(new, submissions, strict=True):
                if submission.file is not None:
                    drafts.enter_context(await self._store(document.id, submission.file))
            async with self._engine.database.transaction() as tx:
                first: dict[str, Taken] = {}
                # In one order, so that two batches cannot wait for each other.
                for place in sorted(range(len(new)), key=lambda place: new[place].source_key):
                    key = new[place].source_key
                    if key in first:
                        outcomes[place] = replace(first[key], created=False)
                        continue
                    outcome, failed = await self._add_row(tx, new[place], caller)
                    outcomes[place] = first[key] = outcome
                    if failed is not None:
                        again[failed.id] = failed
                created = [place for place, outcome in outcomes.items() if outcome.created]
                jobs = [self._job(new[place], submissions[place], caller) for place in created]
                if jobs:
                    await self._engine.enqueue_many(jobs, connection=tx.connection)
        taken = [outcomes[place] for place in range(len(new))]
        await self._delete_unused_files(new, taken)
        for failed_before in again.values():
            if not await self._retried(failed_before, caller):
                now = await self.documents.get(caller.organisation, failed_before.id)
                as_it_is = Taken(failed_before.id, now.status if now else Stage.FAILED, False)
                taken = [as_it_is if each.id == as_it_is.id else each for each in taken]
        return taken

    async def _delete_unused_files(
        self, new: Sequence[NewDocument], taken: Sequence[Taken]
    ) -> None:
        """Delete the files of documents that were there already: they have their own."""
        for document, outcome in zip(new, taken, strict=True):
            if not outcome.created:
                await asyncio.to_thread(self._files.delete, upload_name(document.id))

    async def _check_limits(self, new: Sequence[NewDocument], caller: CallerIdentity) -> None:
        """Refuse documents that the caller's limits have no room for; repeats take none."""
        try:
            await self._check_room(new, caller.owner)
        except (TooManyJobs, StorageExceeded):
            first = {document.source_key: document for document in new}
            known = await self.documents.known_sources(caller.organisation, list(first))
            missing = [document for key, document in first.items() if key not in known]
            if len(missing) == len(new):
                raise
            if missing:
                await self._check_room(missing, caller.owner)

    async def _check_room(self, new: Sequence[NewDocument], owner: str) -> None:
        stored = sum(document.bytes or 0 for document in new)
        await self._engine.owners.check_jobs(owner, len(new))
        await self._engine.owners.check_storage(owner, stored)

    async def _retried(self, document: Document, caller: CallerIdentity) -> bool:
        """Retry a document; False where that is refused, which must not hide what was added."""
        try:
            await self.retry(document, caller)
        except (InvalidState, UnknownJob):  # retried by another caller, or deleted, just now
            return False
        except ApiError as error:
            if error.code != ErrorCode.INVALID_STATE:
                raise
            return False
        return True

    async def _add_row(
        self, tx: DatabaseTransaction, new: NewDocument, caller: CallerIdentity
    ) -> tuple[Taken, Document | None]:
        """Add a document without its job; also return the one to be retried in its place, if any.

        An earlier document is found only while its job is stored.
        """
        twin = None
        added = await self.documents.add(tx, new, self._state.clock.wall())
        if not added:
            twin = await self.documents.by_source(tx, caller.organisation, new.source_key)
        if not added and twin is None:  # deleted in between
            added = await self.documents.add(tx, new, self._state.clock.wall())
        if added:
            return Taken(new.id, Stage.QUEUED, True), None
        if twin is None:
            line = "The same document is being added and deleted; please try again."
            raise ApiError(ErrorCode.INVALID_STATE, line)
        if twin.status is Stage.FAILED:
            return Taken(twin.id, Stage.QUEUED, False, is_retried=True), twin
        return Taken(twin.id, twin.status, False), None

    def _new(self, submissions: Sequence[Submission], caller: CallerIdentity) -> list[NewDocument]:
        return [self._new_document(submission, caller) for submission in submissions]

    def _new_document(self, submission: Submission, caller: CallerIdentity) -> NewDocument:
        text, about = submission.text, submission.about
        data = submission.file if text is None else text.encode("utf-8", "replace")
        return NewDocument(
            id=self._new_id(),
            organisation=caller.organisation,
            owner=caller.owner,
            source_key=submission.source_key,
            type=str(submission.type),
            org_id=about.org_id,
            url=submission.url,
            filename=submission.filename,
            title=about.title,
            media_type=None if submission.type == URL_TYPE else Format(submission.type).media_type,
            bytes=None if data is None else len(data),
            content=text,
            content_hash=None if text is None else hashlib.sha256(text.encode()).hexdigest(),
            metadata=about.metadata,
        )

    def _new_id(self) -> str:
        # Grows with time: lists are in the order of ids.
        return f"{int(self._state.clock.wall() * 1000):012x}{secrets.token_hex(10)}"

    async def _store(self, document_id: str, data: bytes) -> Draft:
        """Make a file durable; while the draft is open, cleanup leaves the file alone."""

        def write() -> Draft:
            draft = self._files.draft()
            try:
                draft.write(data)
                draft.publish(upload_name(document_id))
            except BaseException:
                draft.close()
                raise
            return draft

        try:
            return await asyncio.to_thread(write)
        except OSError as error:
            line = "The file could not be stored; please try again."
            raise ApiError(ErrorCode.IO_ERROR, line, status=503) from error

    def _job(
        self, new: NewDocument, submission: Submission, caller: CallerIdentity
    ) -> JobRequest[Any, Any]:
        """Return the job of a new document."""
        organisation = submission.about.org_id or caller.organisation
        args = DocumentArgs(new.id, organisation, submission.host)
        return self._request(args, submission.name, caller)

    def _request(
        self, args: DocumentArgs, name: str, caller: CallerIdentity
    ) -> JobRequest[Any, Any]:
        meta = _meta(args, name)
        return JobRequest(
            self._process, args, id=job_id(args.document_id), owner=caller.owner, meta=meta
        )

    # -- changing ------------------------------------------------------------------------------

    async def delete(self, document: Document, caller: CallerIdentity) -> None:
        """Delete a document with its chunks, their words and its file; its job is cancelled.

        A job that runs meanwhile finds no document any more and stores nothing.
        """
        await self.documents.delete(caller.organisation, document.id)
        with contextlib.suppress(UnknownJob, InvalidState):
            await self._engine.cancel(job_id(document.id))
        await asyncio.to_thread(self._files.delete, upload_name(document.id))

    async def retry(self, document: Document, caller: CallerIdentity) -> None:
        """Requeue the job of a failed document with all of its attempts.

        Raises:
            ApiError: it has not failed, or was cancelled a moment ago.
        """
        if document.status is not Stage.FAILED:
            line = f"Only a failed document can be retried; this one is {document.status}."
            raise ApiError(ErrorCode.INVALID_STATE, line)
        if document.job is not None:
            if document.job.status != "failed":
                line = "Its job ended a moment ago; please try again in a few minutes."
                raise ApiError(ErrorCode.INVALID_STATE, line)
            await self._engine.retry(job_id(document.id))
            return
        async with self._engine.database.transaction() as tx:
            if await self.documents.requeue(tx, caller.organisation, document.id):
                job = self._request(self._args(document, caller), _name(document), caller)
                await self._engine.enqueue_many([job], connection=tx.connection)

    async def retry_now(self, document: Document) -> bool:
        """Let the next attempt of a document begin; False where its site is paused.

        Raises:
            UnknownJob, InvalidState: it does not wait for an attempt.
        """
        return not (await self._engine.retry_now(job_id(document.id))).held

    async def refresh(self, document: Document, caller: CallerIdentity) -> str | None:
        """Have a done document fetched again, if its site has a newer one.

        Return the job's id; None where the caller's next request could not read that job.

        Raises:
            ApiError: it is not done, or was not fetched from an address.
        """
        if document.url is None:
            line = "Only a document that was fetched from an address can be refreshed."
            raise ApiError(ErrorCode.INVALID_STATE, line)
        if document.status is not Stage.DONE:
            line = f"Only a document that is done can be refreshed; this one is {document.status}."
            raise ApiError(ErrorCode.INVALID_STATE, line)
        args = self._args(document, caller)
        handle = await self._engine.enqueue(
            self._refresh,
            args,
            owner=caller.owner,
            meta=_meta(args, _name(document)),
            dedup_key=document.id,
            dedup="unfinished",
        )
        return handle.id if await self._can_read(handle, caller) else None

    async def _can_read(self, handle: JobHandle[Any], caller: CallerIdentity) -> bool:
        if not caller.is_known or handle.created:
            return caller.is_known
        job = await self._engine.get(handle.id)  # a colleague may have asked for it
        return job is not None and job.owner == caller.owner

    def _args(self, document: Document, caller: CallerIdentity) -> DocumentArgs:
        organisation = document.org_id or caller.organisation
        if document.url is None:
            return DocumentArgs(document.id, organisation)
        host = host_key(self.fetcher.check(document.url).authority)
        return DocumentArgs(document.id, organisation, host)


def _name(document: Document) -> str:
    return document.title or document.url or document.filename or document.id


def _meta(args: DocumentArgs, name: str) -> dict[str, Any]:
    return {"title": name, "documentId": args.document_id, "source": args.host}
