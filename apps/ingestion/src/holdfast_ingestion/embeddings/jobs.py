"""The jobs that embed the chunks of documents."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast import App, Downstream, Exponential, JobContext, RetryPolicy, StoreError, presets
from holdfast_ingestion.embeddings.embedder import MODEL, MOST_TEXTS, Embedder
from holdfast_ingestion.embeddings.repository import Embeddings
from holdfast_ingestion.embeddings.vectors import Vector
from holdfast_ingestion.follow_up import FollowUp

assert presets.GEMINI_API.breaker is not None
_BREAKER = replace(presets.GEMINI_API.breaker, exclude=(StoreError,))
_RETRY = RetryPolicy(
    # Patient: about a day of attempts, since the document can be found meanwhile.
    max_attempts=30,
    backoff=Exponential(base=2, multiplier=2, cap=3600, jitter=0.3),
)
_TIMEOUT = 60.0
"""Seconds for one job: the wait for a place under the rate, and one request."""

CALLS_IN_JOBS = replace(presets.GEMINI_API, max_attempts=1, breaker=None, rate=None)
"""How jobs call the API: the job's own retries and the breaker of its downstream do the rest."""


def embedding_jobs(app: App, embedder: Callable[[JobContext], Embedder]) -> FollowUp[Vector]:
    """Declare the jobs; `embedder` returns the one of the worker that runs an attempt."""

    async def work(ctx: JobContext, texts: Sequence[str]) -> Sequence[Vector]:
        return await embedder(ctx).vectors(texts)

    return FollowUp(
        app,
        "embed",
        MODEL,
        results=lambda database: Embeddings(database, MODEL),
        work=work,
        at_once=MOST_TEXTS,
        options={
            "retry": _RETRY,
            "downstream": Downstream("gemini", breaker=_BREAKER, concurrency=2),
            "timeout": _TIMEOUT,
        },
    )
