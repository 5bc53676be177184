"""The clients of models that the jobs of one worker share."""

from typing import Self

from holdfast import Clock, JobContext
from holdfast_ingestion.embeddings.embedder import RATE, RATE_NAME, Embedder
from holdfast_ingestion.embeddings.jobs import CALLS_IN_JOBS
from holdfast_ingestion.graph.chat_extraction import ChatExtractor
from holdfast_ingestion.graph.jobs import ConceptExtractor
from holdfast_ingestion.graph.key_phrases import KeyPhraseExtractor
from holdfast_ingestion.model_settings import ModelSettings


class WorkerModels:
    """Make each client when a job first needs it; an async context manager that closes them."""

    def __init__(self, settings: ModelSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._embedder: Embedder | None = None
        self._extractor: ConceptExtractor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in (self._embedder, self._extractor):
            if client is not None:
                await client.aclose()

    def embedder(self, ctx: JobContext) -> Embedder:
        """Return the embedder; `ctx` is the job's that asks."""
        if self._embedder is None:
            rate = ctx.shared_rate(RATE_NAME, RATE)
            self._embedder = Embedder(self._settings, rate, CALLS_IN_JOBS, self._clock)
        return self._embedder

    def extractor(self) -> ConceptExtractor:
        """Return what extracts concepts: by a model where one is set up."""
        if self._extractor is None:
            url = self._settings.chatmock_base_url
            self._extractor = (
                KeyPhraseExtractor(self._clock) if url is None else ChatExtractor(url, self._clock)
            )
        return self._extractor
