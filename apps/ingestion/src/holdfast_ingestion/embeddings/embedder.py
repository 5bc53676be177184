"""Texts to vectors, by the Gemini API."""

from collections.abc import Sequence

from holdfast import Clock, HoldfastError, RateLimit, RetryPolicy, RetryService, SharedRate
from holdfast.providers import GeminiClient, InvalidAnswer, is_setup_error
from holdfast_ingestion.embeddings.vectors import Vector, as_vector
from holdfast_ingestion.error_codes import MODEL_KEY_REFUSED
from holdfast_ingestion.model_settings import ModelSettings

MODEL = "gemini-embedding-001"
RATE_NAME = "gemini"
RATE = RateLimit(per_minute=100, per_day=1000)
"""What the API allows an account, in requests of up to 100 texts. All processes share it."""
MOST_TEXTS = 100
"""Texts of one request."""


class KeyRefused(HoldfastError):
    """Report that the API refuses its caller. No text is to blame, so jobs are tried again."""

    code = MODEL_KEY_REFUSED


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
        try:
            embeddings = (await self._client.generate_embeddings(texts)).unwrap()
        except Exception as error:
            if is_setup_error(error):
                line = "The Gemini API refuses its key, or is not at its address."
                raise KeyRefused(line) from error
            raise
        try:
            return [as_vector(embedding) for embedding in embeddings]
        except ValueError as error:
            raise InvalidAnswer(str(error)) from error

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()
