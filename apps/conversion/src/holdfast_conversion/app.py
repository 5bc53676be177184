"""The conversion service: one kind of job, what it serves, and the gateway beside it."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any, BinaryIO
from xml.parsers import expat

from fastapi import APIRouter

from holdfast import (
    App,
    Clock,
    Downstream,
    Engine,
    ErrorCode,
    Job,
    JobContext,
    JobStatus,
    Retention,
    SystemClock,
)
from holdfast.files import ArtifactStore
from holdfast.http import (
    Download,
    FactFormat,
    JobFact,
    JobFacts,
    PagePart,
    ServedApp,
    ServerState,
    Sidecar,
    meta_of,
)
from holdfast_conversion import file_cleanup
from holdfast_conversion.error_codes import DECLARED, LINES, file_not_found, line_of
from holdfast_conversion.file_names import (
    StorageError,
    expires_at,
    has_expired,
    pdf_name,
    result_name,
    result_size,
    storing,
    xml_name,
)
from holdfast_conversion.gateway.gateway_settings import GatewaySettings
from holdfast_conversion.gateway_client import GatewayClient, GatewayError, not_xml
from holdfast_conversion.job_values import ConvertArgs, Converted
from holdfast_conversion.pages import conversion_page
from holdfast_conversion.service_settings import ConversionSettings
from holdfast_conversion.stored_files import stored_bytes
from holdfast_conversion.upload_routes import upload_routes
from holdfast_conversion.upload_service import UploadService

_PIECE = 256 * 1024
_MOST_XML = 512 * 1024 * 1024
"""Bytes of XML that are taken from a gateway for one file."""
_WALL_SHARE = 11 / 12
"""Of the time that the gateway has, what the built-in one may take to read a file."""
_FILE_SECONDS = 30.0
"""What reading and storing files may add to the time that the gateway has."""
_PROBE_SECONDS = 10.0
"""Seconds between two health checks of an open gateway; a breaker that is open for less checks more
often."""
_RETRIED_ONCE = (ErrorCode.IO_ERROR, ErrorCode.UNKNOWN)
"""A disk that fails twice needs a person, and so does an error that is not understood."""
_LISTED_FOR = 7 * 86_400.0
"""Seconds that finished jobs are listed, or as long as their files are kept where that is more."""


def create(environment: Mapping[str, str]) -> "Conversion":
    """Return the service as `environment` sets it up.

    Raises:
        BadSetting: a value cannot be used; the message names it.
    """
    return Conversion(ConversionSettings.load(environment))


class Conversion(ServedApp):
    """PDF in, XML out, whatever the gateway does."""

    lines = LINES
    job_facts = (
        JobFact("filename", "File name", in_rows=False),
        JobFact("mapping", "Mapping"),
        JobFact("bytes", "Size", FactFormat.BYTES),
        JobFact("resultBytes", "Size of the XML", FactFormat.BYTES, of_result=True),
    )

    def __init__(self, settings: ConversionSettings) -> None:
        super().__init__(App("conversion", errors=DECLARED, stored_bytes=self._stored_bytes))
        self.settings = settings
        self.files = ArtifactStore(settings.files)
        self._clock: Clock = SystemClock()
        # The built-in gateway announces another address where this one is taken.
        url = settings.gateway_url or f"http://127.0.0.1:{GatewaySettings().port}"
        self.gateway = GatewayClient(url, settings.gateway_timeout)
        self.convert = self._declare()

    async def _stored_bytes(self, engine: Engine, owner: str) -> AsyncGenerator[int, None]:
        async for part in stored_bytes(engine, self.files, self.convert.kind.name, owner):
            yield part

    # -- the job -------------------------------------------------------------------------------

    def _downstream(self) -> Downstream:
        breaker = self.settings.retry.breaker
        assert breaker is not None
        return Downstream(
            "gateway",
            # A full or broken disk of ours says nothing of the gateway.
            breaker=replace(breaker, exclude=(StorageError,)),
            mode=self.settings.circuit_mode,
            # A job waits for a place in the queue, where that costs no attempt and no time of its
            # call, and no owner takes all places.
            concurrency=self.settings.gateway_concurrency,
            spare=1,
            probe=self.gateway.check,
            probe_every=min(_PROBE_SECONDS, breaker.open_for / 6),
        )

    def _retention(self) -> Retention:
        listed_for = max(_LISTED_FOR, self.settings.artifact_ttl)
        return Retention(
            complete_for=listed_for,
            failed_for=listed_for,
            cancelled_for=listed_for,
            on_deleted=lambda job: file_cleanup.delete_files(self.files, job.id, job.result),
        )

    def _declare(self) -> Any:
        files = self.files

        @self.app.job(
            retry=self.settings.retry,
            downstream=self._downstream(),
            timeout=self.settings.gateway_timeout + _FILE_SECONDS,
            retention=self._retention(),
            retry_once=_RETRIED_ONCE,
        )
        async def convert(ctx: JobContext, args: ConvertArgs) -> Converted:
            """Let the gateway convert a PDF."""
            return await self._convert(ctx, args)

        @convert.existing
        def take(ctx: JobContext, args: ConvertArgs) -> Converted | None:
            """Return the XML of an attempt that finished without reporting it."""
            del args
            return _existing(files, ctx.job_id, ctx.token)

        @convert.before_retry
        def check(job: Job) -> None:
            """Refuse where the PDF is gone."""
            if self._is_over(job) or files.find(pdf_name(job.id)) is None:
                raise file_not_found()

        return convert

    async def _convert(self, ctx: JobContext, args: ConvertArgs) -> Converted:
        """Convert, and promise no further attempt where there is none."""
        try:
            return await self._call(ctx, args)
        except GatewayError as error:
            if ctx.attempt < ctx.max_attempts:
                raise
            raise GatewayError(ErrorCode(error.code), is_retried=False) from error
        except StorageError as error:
            if ctx.attempt == 1 < ctx.max_attempts:
                raise
            raise StorageError(line_of(ErrorCode.IO_ERROR, is_retried=False)) from error

    async def _call(self, ctx: JobContext, args: ConvertArgs) -> Converted:
        with storing():
            try:
                source = await asyncio.to_thread(self.files.open, args.source)
            except FileNotFoundError:
                raise file_not_found() from None

        def answered(status: int) -> None:
            ctx.http_status = status

        with source:
            async with (
                aclosing(_read(source)) as pdf,
                self.gateway.convert(
                    pdf, args.bytes, args.mapping, ctx.idempotency_key, answered
                ) as xml,
            ):
                return await self._keep(ctx, xml)

    async def _keep(self, ctx: JobContext, xml: AsyncIterator[bytes]) -> Converted:
        """Store the XML under a name that carries the token; the completion publishes it."""
        with storing():
            draft = self.files.draft()
        digest, parser = hashlib.sha256(), expat.ParserCreate()

        def take(piece: bytes, last: bool) -> None:
            with storing():
                draft.write(piece)
            digest.update(piece)
            try:
                parser.Parse(piece, last)
            except expat.ExpatError:
                raise not_xml() from None

        def publish(name: str) -> None:
            with storing():
                draft.publish(name)

        with draft:
            async for piece in _in_larger_pieces(xml):
                await asyncio.to_thread(take, piece, False)
                if draft.size > _MOST_XML:
                    raise not_xml()
            await asyncio.to_thread(take, b"", True)
            name = xml_name(ctx.job_id, ctx.token)
            await asyncio.to_thread(publish, name)
            return Converted(name, draft.size, digest.hexdigest())

    # -- what it serves ------------------------------------------------------------------------

    def routes(self, state: ServerState) -> APIRouter:
        """Return the upload, by script and by form."""
        self._clock = state.clock
        return upload_routes(UploadService(self.settings, self.files, self.convert, state))

    def page(self) -> PagePart:
        """Return what stands above the rows: where files are dropped."""
        return conversion_page(self.settings)

    def running(self, state: ServerState) -> AbstractAsyncContextManager[None]:
        """Clear up files while the server runs."""
        return file_cleanup.cleaning_up(self.files, state, self.settings.artifact_ttl)

    def sidecars(self) -> Sequence[Sidecar]:
        """Return the built-in gateway, unless another one is named."""
        if self.settings.gateway_url is not None:
            return ()
        settings = self.settings
        arguments = ["--any-port", "--children", str(settings.gateway_concurrency)]
        arguments += ["--cpu-seconds", f"{settings.file_cpu_seconds:.0f}"]
        # A slow file is refused as such before its call times out as the gateway's failure.
        arguments += ["--wall-seconds", f"{settings.gateway_timeout * _WALL_SHARE:g}"]
        if self.settings.gateway_chaos:
            arguments.append("--chaos")
        gateway = Sidecar(
            "gateway", "holdfast_conversion.gateway", tuple(arguments), on_ready=self._move_gateway
        )
        return (gateway,)

    def _move_gateway(self, line: str) -> None:
        """Call the gateway where its line `listening on URL` says that it is."""
        self.gateway.url = line.partition("listening on ")[2].split()[0]

    def facts(self, job: Job, now: float) -> JobFacts:
        """Return what the rows of the page show."""
        meta = meta_of(job)
        there = not has_expired(job, now, self.settings.artifact_ttl)
        complete = job.status is JobStatus.COMPLETE
        return JobFacts(
            title=meta.get("filename"),
            values={
                **{fact.key: meta.get(fact.key) for fact in self.job_facts},
                "resultBytes": result_size(job.result) if complete else None,
            },
            note=line_of(ErrorCode.EXPIRED) if complete and not there else "",
            can_download=complete and there and self._has(result_name(job.result)),
            expires_at=expires_at(job, self.settings.artifact_ttl) if complete else None,
            can_retry=job.can_retry and there and self._has(pdf_name(job.id)),
        )

    def history_meta(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Say that an HTTP status is the gateway's."""
        return {"gateway_http_status" if key == "http_status" else key: meta[key] for key in meta}

    def download(self, job: Job) -> Download | None:
        """Open the XML; None where it is gone, or its time is over and it goes any moment."""
        name = result_name(job.result)
        if name is None or self._is_over(job):
            return None
        try:
            file = self.files.open(name)
        except FileNotFoundError:
            return None
        size = file.seek(0, 2)
        file.seek(0)
        stem = str(meta_of(job).get("filename") or "document.pdf")
        stem = stem[:-4] if stem.lower().endswith(".pdf") else stem
        return Download(file, size, f"{stem}.xml", "application/xml")

    def _has(self, name: str | None) -> bool:
        return name is not None and self.files.find(name) is not None

    def _is_over(self, job: Job) -> bool:
        return has_expired(job, self._clock.wall(), self.settings.artifact_ttl)


def _existing(files: ArtifactStore, job_id: str, token: int) -> Converted | None:
    """Return the result of the latest attempt before `token` that left one.

    A file that is there under its name is whole.
    """
    with storing():
        for earlier in range(token - 1, 0, -1):
            found = files.find(xml_name(job_id, earlier))
            if found is not None:
                with files.open(found.name) as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                return Converted(found.name, found.size, digest)
    return None


async def _read(file: BinaryIO) -> AsyncGenerator[bytes, None]:
    while True:
        with storing():
            piece = await asyncio.to_thread(file.read, _PIECE)
        if not piece:
            return
        yield piece


async def _in_larger_pieces(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Put small pieces together: each costs a thread's wake-up."""
    gathered = bytearray()
    async for piece in pieces:
        gathered += piece
        if len(gathered) >= _PIECE:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)
