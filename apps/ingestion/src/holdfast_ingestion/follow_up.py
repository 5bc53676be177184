"""Work that follows the indexing of a document: over its chunks, a few at a time, in jobs.

A document is done and found by its words before. Each job takes the first chunks that have no
result yet, works on them, and stores the results together with its completion and with the job for
the next chunks. So nothing is done twice, whatever happens: chunks of a deleted document are gone
and are skipped, and those that a refresh puts in their place have a job of their own. A job's id
names its version and its first chunk, and chunk ids are never given twice; so no work is enqueued
twice.

Every few minutes a periodic job looks for chunks without a result and without a job: those of
documents that were indexed before the model was set up or changed, and those whose job has failed
and was deleted after its day.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from holdfast import App, Database, DatabaseTransaction, JobContext, Retention
from holdfast_ingestion.queries import load_queries

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

_CATCH_UP_EVERY = 600.0
"""Seconds between two looks for chunks without a result."""
_CATCH_UP_MOST = 1000
"""Documents for which one look enqueues jobs."""
_RETENTION = Retention(
    complete_for=3600.0, complete_newest=1000, failed_for=86_400.0, cancelled_for=86_400.0
)


@dataclass(frozen=True, slots=True)
class FollowUpArgs:
    """Which document to work on."""

    document_id: str


class Results(Protocol[R_contra]):
    """The results of one kind of follow-up in the database."""

    async def missing(self, document_id: str, limit: int) -> list[tuple[int, str]]:
        """Return the first chunks of a document that have none: their ids and texts."""
        ...

    async def unfinished(self, job_prefix: str, limit: int) -> list[tuple[str, int]]:
        """Return documents that lack some and have no job, with the first chunk that has none.

        The id of that job would be `<job_prefix>-<document>-<chunk>`.
        """
        ...

    async def add(self, tx: DatabaseTransaction, found: Mapping[int, R_contra]) -> None:
        """Store results by their chunks' ids; of chunks that are gone, nothing."""
        ...


class FollowUp(Generic[R]):
    """A kind of job that follows the indexing of each document.

    Args:
        app: where it is declared.
        name: the name of its jobs, and the beginning of their ids.
        version: what does the work, such as a model; work of another version is done again.
        results: returns where the results are, for a database.
        work: returns the results for the texts of some chunks, in their order.
        at_once: chunks of one job.
        delay: seconds between the indexing of a document and its first job.
        options: for `App.job`: retry, downstream, timeout and so on.
    """

    def __init__(
        self,
        app: App,
        name: str,
        version: str,
        *,
        results: Callable[[Database], Results[R]],
        work: Callable[[JobContext, Sequence[str]], Awaitable[Sequence[R]]],
        at_once: int,
        delay: float = 0.0,
        options: Mapping[str, Any],
    ) -> None:
        self._prefix = f"{name}-{version}"
        self._results = results
        self._work = work
        self._at_once = at_once
        self._delay = delay

        @app.job(name, retention=_RETENTION, **options)
        async def follow_up(ctx: JobContext, args: FollowUpArgs) -> int:
            return await self._run(ctx, args)

        @app.periodic(every=_CATCH_UP_EVERY, name=f"{name}_catch_up", overlap=False)
        async def catch_up(ctx: JobContext) -> None:
            found = await results(ctx.database).unfinished(self._prefix, _CATCH_UP_MOST)
            for document_id, chunk in found:
                self._enqueue(ctx, document_id, chunk)

        self.job = follow_up
        self.catch_up = catch_up

    async def begin(self, ctx: JobContext, tx: DatabaseTransaction, document_id: str) -> None:
        """Enqueue the first job of a document whose chunks were just replaced in `tx`.

        The job is created with the completion of the one that runs.
        """
        first = load_queries(ctx.database.dialect)["first_chunk"]
        rows = await tx.fetch(first, {"document": document_id})
        if rows:
            self._enqueue(ctx, document_id, rows[0][0], self._delay)

    async def _run(self, ctx: JobContext, args: FollowUpArgs) -> int:
        """Work on the first chunks without a result; return how many there were."""
        results = self._results(ctx.database)
        missing = await results.missing(args.document_id, self._at_once + 1)
        now, later = missing[: self._at_once], missing[self._at_once :]
        if not now:
            return 0
        found = await self._work(ctx, [text for _, text in now])
        chunks = [chunk for chunk, _ in now]
        async with ctx.transaction(ctx.database) as tx:
            await results.add(tx, dict(zip(chunks, found, strict=True)))
        for chunk, _ in later:
            self._enqueue(ctx, args.document_id, chunk)
        return len(now)

    def _enqueue(self, ctx: JobContext, document_id: str, chunk: int, delay: float = 0.0) -> None:
        job_id = f"{self._prefix}-{document_id}-{chunk}"
        ctx.enqueue(self.job, FollowUpArgs(document_id), id=job_id, delay=delay)
