"""Copy the outcomes of failed jobs into their documents, soon after each and as long as needed.

Failed refreshes are copied in the same way; only then does a document show them.

A document's state is right without this, as long as its job's record exists; `document_state` says
why. So it may be late, run twice or run in several processes.

A document whose last attempt was lost with its worker is retried instead, a few times: most likely
the worker was killed.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

from holdfast import AttemptFinished, Clock, Database, InvalidState, StoreError, UnknownJob
from holdfast_ingestion.job_values import document_of, job_id
from holdfast_ingestion.repository import Documents

_log = logging.getLogger("holdfast.ingestion")
_EVERY = 30.0
"""Seconds between two rounds in a server: for jobs that ended where no worker could notice."""

Retry = Callable[[str], Awaitable[object]]
"""Requeue the failed job with this id, with a fresh budget."""


async def settle(database: Database, among: Collection[str] | None = None) -> list[str]:
    """Settle the documents of jobs that have failed, all or those `among`; return their ids."""
    settled = await Documents(database).settle(among)
    for document_id in settled:
        _log.error("[queue-worker] Document marked as failed { documentId: '%s' }", document_id)
    await Documents(database).settle_refreshes()
    return settled


def is_last_failure(event: object, kind: str) -> bool:
    """Say whether a job of `kind` has failed for good with this event."""
    if not isinstance(event, AttemptFinished) or event.name != kind:
        return False
    return event.code is not None and event.retry_at is None


def log_failure(event: object, kind: str) -> str | None:
    """Log an attempt of `kind` that failed; return its document if its job has failed with it."""
    if not isinstance(event, AttemptFinished) or event.name != kind or event.code is None:
        return None
    _log.error(
        "[queue-worker] Job failed { jobId: '%s', documentId: '%s', error: '%s', attempts: %d }",
        *(event.job_id, document_of(event.job_id), event.message, event.attempt),
        extra={"job_id": event.job_id, "attempt": event.attempt, "code": event.code},
    )
    return document_of(event.job_id) if event.retry_at is None else None


class Settling:
    """Settle documents in a worker, soon after their jobs have failed."""

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._failed: set[str] = set()
        self._database: Database | None = None
        self._loop = asyncio.get_running_loop()

    def use(self, database: Database) -> None:
        """Note the worker's database, which the first attempt brings."""
        self._database = database

    def wake(self, *documents: str) -> None:
        """Settle these documents and all refreshes soon; called in any thread."""
        self._loop.call_soon_threadsafe(self._add, documents)

    def _add(self, documents: tuple[str, ...]) -> None:
        self._failed.update(documents)
        self._wanted.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Settle what `wake` names while the block runs, and the rest at its end."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if self._wanted.is_set():
                await self._settle()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            await self._settle()

    async def _settle(self) -> None:
        self._wanted.clear()
        if self._database is None:
            return
        failed, self._failed = self._failed, set()
        try:
            await settle(self._database, failed)
        except StoreError as error:
            # The server's rounds settle these too.
            _log.warning("documents could not be settled: %s", error)


async def retry_lost(database: Database, retry: Retry) -> None:
    """Retry documents whose attempts were used up because their workers were killed."""
    for document_id in await Documents(database).lost_with_worker():
        with contextlib.suppress(InvalidState, UnknownJob):  # another server was faster
            await retry(job_id(document_id))
            _log.warning("[queue-worker] Worker lost, retrying { documentId: '%s' }", document_id)


async def settle_for_ever(database: Database, retry: Retry, clock: Clock) -> None:
    """Settle from time to time, until cancelled; `retry` requeues a failed job."""
    while True:
        try:
            await retry_lost(database, retry)
            await settle(database)
        except StoreError as error:
            _log.warning("documents could not be settled: %s", error)
        await clock.sleep_async(_EVERY)
