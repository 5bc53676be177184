"""The ingestion app: its jobs, and what it adds to a server."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter

from holdfast import (
    App,
    AppTables,
    Clock,
    Engine,
    Job,
    JobContext,
    Retention,
    SystemClock,
    presets,
)
from holdfast.fetch import FETCH_ERRORS, Fetcher, FetchLimits
from holdfast.files import ArtifactStore
from holdfast.http import AppPages, JobFact, JobFacts, ServedApp, ServerState, meta_of
from holdfast_ingestion import file_cleanup
from holdfast_ingestion.document_routes import document_routes
from holdfast_ingestion.embeddings.embedder import RATE, RATE_NAME, Embedder
from holdfast_ingestion.embeddings.jobs import embedding_jobs
from holdfast_ingestion.erasure import erase_documents
from holdfast_ingestion.error_codes import DECLARED
from holdfast_ingestion.extraction.extractor import (
    ExtractionLimits,
    Extractor,
)
from holdfast_ingestion.follow_up import FollowUp
from holdfast_ingestion.graph.jobs import concept_jobs, source_of
from holdfast_ingestion.graph.repository import KnowledgeGraph
from holdfast_ingestion.graph.routes import concept_routes
from holdfast_ingestion.intake import Intake
from holdfast_ingestion.job_values import DocumentArgs, Indexed
from holdfast_ingestion.pages import FOLDER, NAVIGATION
from holdfast_ingestion.pages.concept_pages import concept_pages
from holdfast_ingestion.pages.document_pages import document_pages
from holdfast_ingestion.pages.intake_form import intake_form
from holdfast_ingestion.pages.search_page import search_page
from holdfast_ingestion.processing import Processor
from holdfast_ingestion.repository import Documents
from holdfast_ingestion.search import CALLS_IN_SEARCHES, Search
from holdfast_ingestion.search_routes import search_routes
from holdfast_ingestion.settings import IngestionSettings
from holdfast_ingestion.settling import (
    Settling,
    is_last_failure,
    log_failure,
    settle_for_ever,
)
from holdfast_ingestion.sites import SITE
from holdfast_ingestion.worker_models import WorkerModels

_log = logging.getLogger("holdfast.ingestion")
_BESIDE_FETCHING = 90.0
"""Seconds that one attempt may take for extraction and indexing."""
_RETENTION = Retention(
    complete_for=3600.0,
    complete_newest=1000,
    failed_for=86_400.0,
    # A cancelled job cannot be retried; once its record is gone, its document can.
    cancelled_for=60.0,
)


def create(environment: Mapping[str, str]) -> "Ingestion":
    """Return the app as `environment` sets it up.

    Raises:
        BadSetting: a value cannot be used; the message names it.
    """
    return Ingestion(IngestionSettings.load(environment))


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What `ctx.state` is in one worker."""

    processor: Processor
    settling: Settling
    models: WorkerModels


@dataclass(frozen=True, slots=True)
class _Served:
    """What the routes and the pages of one server share."""

    intake: Intake
    search: Callable[[], Search]
    graph: Callable[[], KnowledgeGraph]
    concept_source: str


class Ingestion(ServedApp):
    """Documents in, passages found: fetched, extracted and indexed by jobs.

    Args:
        settings: how it is set up.
        new_fetcher: makes the fetcher of a worker and of a server; by default as `settings` say.
        clock: where time comes from.
    """

    navigation = NAVIGATION
    folder = FOLDER
    job_facts = (JobFact("documentId", "Document", in_rows=False), JobFact("source", "Source"))

    def __init__(
        self,
        settings: IngestionSettings,
        *,
        new_fetcher: Callable[[], Fetcher] | None = None,
        clock: Clock | None = None,
    ) -> None:
        app = App(
            "ingestion",
            errors=[*FETCH_ERRORS, *DECLARED],
            tables=AppTables("holdfast_ingestion"),
            lifespan=self._worker_state,
            listeners=[self._notice],
            on_erase=self._erase,
            stored_bytes=self._stored_bytes,
        )
        super().__init__(app)
        self.settings = settings
        self.files = ArtifactStore(settings.files)
        self._new_fetcher = new_fetcher or self._default_fetcher
        self._clock = clock or SystemClock()
        self._settling: list[Settling] = []
        self._embedder: Embedder | None = None
        self._served: _Served | None = None
        self.process, self.refresh = self._declare()
        self.follow_ups = self._declare_follow_ups()

    def _default_fetcher(self) -> Fetcher:
        limits = FetchLimits(
            max_bytes=self.settings.max_bytes,
            max_seconds=self.settings.fetch_seconds,
            connect_seconds=min(self.settings.connect_seconds, self.settings.fetch_seconds),
        )
        return Fetcher(limits, allow_private=self.settings.allow_private, clock=self._clock)

    # -- the jobs ------------------------------------------------------------------------------

    def _declare(self) -> tuple[Any, Any]:
        options: dict[str, Any] = {
            "retry": presets.DOCUMENTS,
            "downstream": SITE,
            "timeout": self.settings.fetch_seconds + _BESIDE_FETCHING,
            "concurrency": self.settings.concurrency,
        }

        @self.app.job(retention=_RETENTION, **options)
        async def process(ctx: JobContext, args: DocumentArgs) -> Indexed:
            """Fetch, extract and index a document."""
            state: WorkerState = ctx.state
            state.settling.use(ctx.database)
            return await state.processor.process(ctx, args)

        @self.app.job(retention=replace(_RETENTION, failed_for=3600.0), **options)
        async def refresh(ctx: JobContext, args: DocumentArgs) -> Indexed:
            """Fetch a document again if its site has a newer one."""
            state: WorkerState = ctx.state
            state.settling.use(ctx.database)
            return await state.processor.refresh(ctx, args)

        return process, refresh

    def _declare_follow_ups(self) -> tuple[FollowUp[Any], ...]:
        models = self.settings.models
        declared: list[FollowUp[Any]] = []
        if models.gemini_api_key is not None:
            declared.append(embedding_jobs(self.app, lambda ctx: ctx.state.models.embedder(ctx)))
        if models.extracts_concepts:
            declared.append(
                concept_jobs(self.app, models, lambda ctx: ctx.state.models.extractor())
            )
        return tuple(declared)

    @contextlib.asynccontextmanager
    async def _worker_state(self, _app: App) -> AsyncIterator[WorkerState]:
        """Open what the attempts of one worker share."""
        settling = Settling()
        self._settling.append(settling)
        try:
            async with (
                self._new_fetcher() as fetcher,
                Extractor(ExtractionLimits(), self._clock) as extractor,
                WorkerModels(self.settings.models, self._clock) as models,
                settling.running(),
            ):
                processor = Processor(fetcher, extractor, self.files, self._clock, self.follow_ups)
                yield WorkerState(processor, settling, models)
        finally:
            self._settling.remove(settling)

    async def _erase(self, engine: Engine, owner: str) -> dict[str, int]:
        return {"documents": await erase_documents(engine, self.files, owner)}

    async def _stored_bytes(self, engine: Engine, owner: str) -> AsyncGenerator[int, None]:
        yield await Documents(engine.database).bytes_of_owner(owner)

    def _notice(self, event: object) -> None:
        """Log failed attempts, and let the workers of this process settle what failed for good."""
        failed = log_failure(event, self.process.kind.name)
        if failed is None and not is_last_failure(event, self.refresh.kind.name):
            return
        for settling in self._settling:
            if failed is None:
                settling.wake()
            else:
                settling.wake(failed)

    # -- what it serves ------------------------------------------------------------------------

    def routes(self, state: ServerState) -> APIRouter:
        """Return the routes below `/v3`, and the one that the page's form posts to."""
        jobs, engine = (self.process, self.refresh), state.engine
        models = self.settings.models
        if models.gemini_api_key is not None:
            rate = engine.shared_rate(RATE_NAME, RATE)
            self._embedder = Embedder(models, rate, CALLS_IN_SEARCHES, self._clock)
        self._served = served = _Served(
            intake=Intake(self.settings, self._new_fetcher(), self.files, jobs, state),
            search=lambda: Search(engine.database, self._embedder),
            graph=lambda: KnowledgeGraph(engine.database),
            concept_source=source_of(models),
        )
        router = document_routes(served.intake)
        router.include_router(search_routes(served.search))
        router.include_router(concept_routes(served.graph, served.concept_source))
        outer = intake_form(served.intake)
        outer.include_router(router)
        return outer

    def pages(self, pages: AppPages) -> APIRouter:
        """Return the pages of documents, of searches and of concepts."""
        served = self._served
        assert served is not None  # the routes are asked for before
        router = document_pages(pages, served.intake)
        router.include_router(search_page(pages, served.search))
        router.include_router(concept_pages(pages, served.graph, served.concept_source))
        return router

    @contextlib.asynccontextmanager
    async def _running(self, state: ServerState) -> AsyncIterator[None]:
        if (warning := self._new_fetcher().start_warning) is not None:
            _log.warning("%s", warning)
        await asyncio.to_thread(self.files.prepare)
        engine = state.engine
        tasks = [
            asyncio.create_task(settle_for_ever(engine.database, engine.retry, state.clock)),
            asyncio.create_task(file_cleanup.clean_up_for_ever(self.files, state)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._embedder is not None:
                await self._embedder.aclose()

    def running(self, state: ServerState) -> AbstractAsyncContextManager[None]:
        """Settle documents and clear up files while the server runs."""
        return self._running(state)

    def facts(self, job: Job, now: float) -> JobFacts:
        """Return what the rows of the page show."""
        del now
        meta = meta_of(job)
        return JobFacts(
            title=meta.get("title"),
            values={fact.key: meta.get(fact.key) for fact in self.job_facts},
            can_retry=job.can_retry,
        )
