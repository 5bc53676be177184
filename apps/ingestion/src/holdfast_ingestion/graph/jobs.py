"""The jobs that extract the concepts of documents."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from holdfast import App, Downstream, Exponential, JobContext, RetryPolicy, StoreError, presets
from holdfast_ingestion.follow_up import FollowUp
from holdfast_ingestion.graph import chat_extraction, key_phrases
from holdfast_ingestion.graph.extracted import PassageConcepts
from holdfast_ingestion.graph.repository import ChunkGraphs
from holdfast_ingestion.model_settings import ModelSettings

assert presets.CHATMOCK_API.breaker is not None
_BREAKER = replace(presets.CHATMOCK_API.breaker, exclude=(StoreError,))
_PATIENT = RetryPolicy(
    # About a day of attempts, since the document can be found meanwhile.
    max_attempts=30,
    backoff=Exponential(base=2, multiplier=2, cap=3600, jitter=0.3),
)
_BY_MODEL: dict[str, Any] = {
    "retry": _PATIENT,
    "downstream": Downstream("chatmock", breaker=_BREAKER, concurrency=2),
    "timeout": 150.0,
}
_LOCALLY: dict[str, Any] = {"concurrency": 1, "timeout": 120.0}
_LOCAL_DELAY = 15.0
"""Seconds that key phrases wait, so that documents which arrive together are found first."""
_LOCALLY_AT_ONCE = 20
"""Chunks of one job without a model, about half a second of computing."""


class ConceptExtractor(Protocol):
    """Extract concepts of texts."""

    async def extract(self, text: str) -> PassageConcepts:
        """Return the concepts of `text` and their relations."""
        ...

    async def aclose(self) -> None:
        """Release what it uses."""
        ...


def source_of(settings: ModelSettings) -> str:
    """Return what extracts concepts, as answers name it."""
    if not settings.extracts_concepts:
        return "off"
    return key_phrases.SOURCE if settings.chatmock_base_url is None else chat_extraction.SOURCE


def concept_jobs(
    app: App, settings: ModelSettings, extractor: Callable[[JobContext], ConceptExtractor]
) -> FollowUp[PassageConcepts]:
    """Declare the jobs; `extractor` returns that of the worker which runs an attempt."""
    source, has_model = source_of(settings), settings.chatmock_base_url is not None

    async def work(ctx: JobContext, texts: Sequence[str]) -> Sequence[PassageConcepts]:
        own = extractor(ctx)
        return [await own.extract(text) for text in texts]

    return FollowUp(
        app,
        "concepts",
        source,
        results=lambda database: ChunkGraphs(database, source),
        work=work,
        # One call to the model per job, so that the breaker of its downstream sees each.
        at_once=1 if has_model else _LOCALLY_AT_ONCE,
        delay=0.0 if has_model else _LOCAL_DELAY,
        options=_BY_MODEL if has_model else _LOCALLY,
    )
