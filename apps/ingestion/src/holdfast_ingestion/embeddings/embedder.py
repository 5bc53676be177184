"""Texts to vectors, by the Gemini API."""

from collections.abc import Sequence

from holdfast import Clock, RateLimit, RetryPolicy, RetryService, SharedRate
from holdfast.providers import GeminiClient, InvalidAnswer
from holdfast_ingestion.embeddings.vectors import Vector, as_vector
from holdfast_ingestion.model_errors import refusals_of
from holdfast_ingestion.model_settings import ModelSettings

MODEL = "gemini-embedding-001"
RATE_NAME = "gemini"
RATE = RateLimit(per_minute=100, per_day=1000)
"""What the API allows an account, in requests of up to 100 texts. All processes share it."""
MOST_TEXTS = 100
"""Texts of one request."""


class Embedder:
    """Make vectors of texts.

    Args:
        settings: the key of the API and where it is.
        rate: `shared_rate(RATE_NAME, RATE)` of an engine or of a job's context.
        policy: the time limits, retries and breaker of its calls.
        clock: where time comes from.
    """

    def __init__(
        self, settings: ModelSettings, rate: SharedRate, policy: RetryPolicy, clock: Clock
    ) -> None:
        assert settings.gemini_api_key is not None
        self._client = GeminiClient(
            settings.gemini_api_key,
            base_url=settings.gemini_base_url,
            service=RetryService(clock=clock),
            policy=policy,
            rate=rate,
            embedding_model=MODEL,
        )

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of `texts`, in their order.

        Raises:
            KeyRefused: the key is wrong, expired or lacks a permission, or the address is wrong.
            Exception: the error that ended the call.
        """
        with refusals_of("Gemini API"):
            embeddings = (await self._client.generate_embeddings(texts)).unwrap()
        try:
            return [as_vector(embedding) for embedding in embeddings]
        except ValueError as error:
            raise InvalidAnswer(str(error)) from error

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()
