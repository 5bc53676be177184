"""Accept uploads: make the file durable, then enqueue its job."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from holdfast import (
    Engine,
    ErrorCode,
    Job,
    JobStatus,
    Permanent,
    StorageExceeded,
    TooManyJobs,
)
from holdfast.files import ArtifactStore, Draft
from holdfast.http import ApiError, Owner, ServerState
from holdfast_conversion.error_codes import line_of
from holdfast_conversion.file_names import (
    StorageError,
    has_expired,
    pdf_name,
    result_name,
    storing,
)
from holdfast_conversion.file_writer import UploadMemory
from holdfast_conversion.gateway.disconnect import DisconnectingResponse
from holdfast_conversion.gateway.request_body import declared_length
from holdfast_conversion.job_values import ConvertArgs
from holdfast_conversion.service_settings import ConversionSettings
from holdfast_conversion.upload_form import Form, UploadLimits, UploadRefused, receive

P = ParamSpec("P")
T = TypeVar("T")

_MOST_TWINS = 1000
_UNFINISHED_SECONDS = 60.0
"""A rejection that was half recorded when its process died is ended by its deadline."""


class _NoTwin(Exception):
    """Roll back the job that was enqueued only to look for a twin."""


class UploadService:
    """Accept uploads.

    Args:
        settings: how large they may be, how long they may take, how long results are kept.
        files: where they are put.
        convert: the job that is made of each.
        state: what the routes of the server share.
    """

    def __init__(
        self, settings: ConversionSettings, files: ArtifactStore, convert: Any, state: ServerState
    ) -> None:
        self._settings = settings
        self._files = files
        self._convert = convert
        self._state = state
        self._memory = UploadMemory()

    @property
    def _engine(self) -> Engine:
        return self._state.engine  # type: ignore[return-value]  # opened by address or not

    async def upload(self, request: Request, owner: Owner) -> Response:
        """Take in a PDF to convert; the same file and mapping again find the first job."""
        form = Form()
        try:
            job, created = await self.take_in(request, form, owner)
        except UploadRefused as refused:
            return await self._refuse(request, refused, form, owner)
        except ClientDisconnect:
            # The client is gone: no answer reaches it.
            return Response(status_code=400)
        body = {"job": self.shown(job)}
        if created:
            return JSONResponse(body, 201, {"location": f"/api/jobs/{job.id}"})
        return JSONResponse({**body, "deduplicated": True}, 200)

    async def take_in(self, request: Request, form: Form, owner: str) -> tuple[Job, bool]:
        """Receive the form of `request`; return its job, and whether it is a new one.

        Raises:
            UploadRefused: it cannot be taken in; `form` says what is known of it.
            ClientDisconnect: the client is gone.
        """
        await self._admit(owner)
        with await self._stored(self._files.draft) as draft:
            kind = request.headers.get("content-type", "")
            await receive(request.stream(), kind, draft, form, self._limits(request))
            return await self._enqueue(draft, form, owner)

    async def take_in_bytes(self, content: bytes, form: Form, owner: str) -> tuple[Job, bool]:
        """Take in a file of our own that `form` describes.

        Raises:
            UploadRefused: it cannot be stored.
        """
        await self._admit(owner)
        with await self._stored(self._files.draft) as draft:
            await self._stored(draft.write, content)
            return await self._enqueue(draft, form, owner)

    async def _admit(self, owner: str) -> None:
        """Refuse the upload before its body is read: nothing is taken in, or not of this owner."""
        try:
            await self._state.intake.check(writes_files=True)
        except ApiError as error:
            raise UploadRefused(
                error.code, str(error), recorded=False, headers=error.headers
            ) from None
        await self._check_limits(owner)

    async def _check_limits(self, owner: str, size: int | None = None) -> None:
        """Refuse a file of `size` bytes where the owner's limits have no room for it.

        Storage is checked once the size is known, and only then: it is counted file by file.
        """
        try:
            await self._engine.owners.check_jobs(owner)
            if size is not None:
                await self._engine.owners.check_storage(owner, size)
        except (TooManyJobs, StorageExceeded) as error:
            raise UploadRefused(error.code, recorded=False) from error

    def _limits(self, request: Request) -> UploadLimits:
        settings = self._settings
        return UploadLimits(
            most_bytes=settings.max_upload_bytes,
            stall_seconds=settings.stall_seconds,
            total_seconds=settings.upload_seconds,
            declared=declared_length(request),
            memory=self._memory,
        )

    async def _stored(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do `work` with files in a thread; refuse the upload where the disk fails."""
        try:
            with storing():
                return await asyncio.to_thread(work, *args, **kwargs)
        except StorageError as error:
            line = line_of(ErrorCode.IO_ERROR, is_retried=False)
            raise UploadRefused(ErrorCode.IO_ERROR, line, recorded=True) from error
        except Permanent as error:
            raise UploadRefused(ErrorCode.IO_ERROR, str(error), recorded=True) from error

    # -- the job -------------------------------------------------------------------------------

    async def _enqueue(self, draft: Draft, form: Form, owner: str) -> tuple[Job, bool]:
        """Publish the file with its job, in turn, so that limits count the uploads before it."""
        async with self._engine.owners.turn(owner):
            try:
                await self._check_limits(owner, form.bytes)
            except UploadRefused:
                # A repeat needs no room.
                twin = await self._twin(form, owner)
                if twin is None:
                    raise
                return twin, False
            return await self._publish(draft, form, owner)

    async def _twin(self, form: Form, owner: str) -> Job | None:
        """Return the job of the same upload if it can replace a new one."""
        for key in _keys(owner, form):
            job_id = await self._id_of(key, owner)
            if job_id is None:
                return None
            job = await self._engine.get(job_id)
            if job is not None and self._is_of_use(job):
                return job
        return None

    async def _id_of(self, key: str, owner: str) -> str | None:
        """Return the id of the job with this dedup key; None if a new one would be created."""
        with contextlib.suppress(_NoTwin):
            async with self._engine.database.transaction() as tx:
                handle = await self._engine.enqueue(
                    self._convert,
                    ConvertArgs("", "", 0, ""),
                    dedup_key=key,
                    owner=owner,
                    beyond_limits=True,
                    connection=tx.connection,
                )
                if handle.created:
                    raise _NoTwin
            return handle.id
        return None

    async def _publish(self, draft: Draft, form: Form, owner: str) -> tuple[Job, bool]:
        """Make the file durable, then the job; the file goes again where a twin was there."""
        job_id = self._new_id()
        name = pdf_name(job_id)
        await self._stored(draft.publish, name)
        args = ConvertArgs(name, form.mapping, form.bytes, form.sha256)
        for key in _keys(owner, form):
            # If the connection to the database breaks here, the job may exist all the same, so the
            # file stays; cleanup deletes it later if no job names it.
            handle = await self._engine.enqueue(
                self._convert,
                args,
                id=job_id,
                dedup_key=key,
                owner=owner,
                meta={**_meta(form), "stored": True},
                beyond_limits=True,  # they were checked before the file was published
            )
            job = await self._engine.get(handle.id)
            if job is not None and (handle.created or self._is_of_use(job)):
                break
        else:
            await asyncio.to_thread(self._files.delete, name)
            raise UploadRefused(ErrorCode.UNKNOWN, recorded=False)
        if not handle.created:
            await asyncio.to_thread(self._files.delete, name)
        return job, handle.created

    def _is_of_use(self, job: Job) -> bool:
        """Say whether a twin can replace a new upload: its result exists, or is still to come."""
        if job.status is not JobStatus.COMPLETE:
            # It may have failed since; one that was asked to stop will have no result.
            return not job.status.finished and not job.cancel_requested
        name = result_name(job.result)
        over = has_expired(job, self._state.clock.wall(), self._settings.artifact_ttl)
        return not over and name is not None and self._files.find(name) is not None

    def _new_id(self) -> str:
        # Grows with time, as the engine's own do.
        return f"{int(self._state.clock.wall() * 1000):012x}{secrets.token_hex(10)}"

    def shown(self, job: Job) -> dict[str, Any]:
        """Return a job as its owner sees it, for JSON."""
        return self._state.job_out(job).as_json()

    # -- refusals ------------------------------------------------------------------------------

    async def _refuse(
        self, request: Request, refused: UploadRefused, form: Form, owner: str
    ) -> Response:
        body: dict[str, Any] = {"error": {"code": refused.code, "message": str(refused)}}
        if refused.recorded:
            job = await self.record(refused, form, owner)
            body["job"] = self.shown(job)
        return DisconnectingResponse(
            refused.status, json.dumps(body).encode(), refused.headers, request
        )

    async def record(self, refused: UploadRefused, form: Form, owner: str) -> Job:
        """Keep a refusal as a failed job, for its owner to see."""
        handle = await self._engine.enqueue(
            self._convert,
            ConvertArgs("", form.mapping, form.bytes, ""),
            owner=owner,
            meta=_meta(form),
            deadline=_UNFINISHED_SECONDS,
            uploaded=True,
            beyond_limits=True,  # a limit must not hide why the upload was refused
        )
        return await self._engine.reject(handle, refused.code, str(refused))


def _meta(form: Form) -> dict[str, Any]:
    return {"filename": form.filename, "mapping": str(form.mapping), "bytes": form.bytes}


def _keys(owner: str, form: Form) -> list[str]:
    """Return the keys by which twins are found: the first, then what follows one of no use."""
    first = f"{owner}:{form.sha256}:{form.mapping}:{form.bytes}"
    return [first, *(f"{first}:{number}" for number in range(2, _MOST_TWINS))]
