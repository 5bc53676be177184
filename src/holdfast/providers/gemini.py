"""`GeminiClient`: embeddings and texts from Google's Gemini API, through its own SDK."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from holdfast.errors import ErrorCode, Permanent
from holdfast.providers.answers import AnswerType, InvalidAnswer
from holdfast.providers.batches import batches, combined
from holdfast.providers.extras import from_extra
from holdfast.resilience import checks, presets
from holdfast.resilience.policy import ExternalRate, RateLimit, RetryPolicy
from holdfast.resilience.result import RetryResult
from holdfast.resilience.service import RetryService

_EMBEDDING = "gemini-embedding"
_GENERATE = "gemini-generate"
_MOST_TEXTS = 100
"""Texts that the API embeds in one request."""


class GeminiClient:
    """Call the Gemini API. Every method has a `_sync` form that blocks.

    The calls run as `gemini-embedding` and `gemini-generate`. Where the API refuses a prompt or an
    answer for its content, the call ends with `Permanent`; an answer without what was asked for is
    an `InvalidAnswer`.

    Args:
        api_key: the key of the API.
        base_url: where the API is; by default Google's own address.
        service: runs the calls; by default one of this client's own.
        policy: its time limits, retries, breaker and rate.
        rate: takes the place of the policy's rate; `Engine.shared_rate` counts for all processes.
        embedding_model: makes embeddings.
        model: generates texts.

    Raises:
        ImportError: the extra `holdfast[gemini]` is not installed.
    """

    def __init__(
        self,
        api_key: str,
        *,
        base_url: str | None = None,
        service: RetryService | None = None,
        policy: RetryPolicy = presets.GEMINI_API,
        rate: RateLimit | ExternalRate | None = None,
        embedding_model: str = "gemini-embedding-001",
        model: str = "gemini-2.5-flash",
    ) -> None:
        checks.label("api_key", api_key)
        self._policy = policy if rate is None else replace(policy, rate=rate)
        self._service = service or RetryService()
        self._embedding_model = embedding_model
        self._model = model
        self._sdk = _sdk_client(api_key, base_url, policy.attempt_timeout)

    async def generate_embedding(self, text: str) -> RetryResult[list[float]]:
        """Return the embedding of `text`."""
        checks.instance("text", text, str)

        async def embed() -> list[float]:
            return (await self._embed([text]))[0]

        return await self._service.execute(embed, self._policy, _EMBEDDING)

    def generate_embedding_sync(self, text: str) -> RetryResult[list[float]]:
        """Do what `generate_embedding` does, and block the calling thread meanwhile."""
        checks.instance("text", text, str)

        def embed() -> list[float]:
            return self._embed_sync([text])[0]

        return self._service.execute_sync(embed, self._policy, _EMBEDDING)

    async def generate_embeddings(self, texts: Sequence[str]) -> RetryResult[list[list[float]]]:
        """Return the embeddings of `texts`, in their order.

        One request embeds up to 100 texts. The requests follow each other, each with the attempts
        and time limits of the policy; the first that fails ends the call.
        """
        results = []
        for batch in _batches(texts):
            embed = partial(self._embed, batch)
            results.append(await self._service.execute(embed, self._policy, _EMBEDDING))
            if not results[-1].ok:
                break
        return combined(results)

    def generate_embeddings_sync(self, texts: Sequence[str]) -> RetryResult[list[list[float]]]:
        """Do what `generate_embeddings` does, and block the calling thread meanwhile."""
        results = []
        for batch in _batches(texts):
            embed = partial(self._embed_sync, batch)
            results.append(self._service.execute_sync(embed, self._policy, _EMBEDDING))
            if not results[-1].ok:
                break
        return combined(results)

    async def generate(
        self,
        prompt: str,
        *,
        system: str | None = None,
        schema: type | None = None,
        idempotency_key: str | None = None,
    ) -> RetryResult[str]:
        """Return the model's answer to `prompt`.

        Args:
            prompt: what to answer.
            system: the system instruction.
            schema: a dataclass, msgspec Struct, TypedDict or pydantic model. The answer is then
                JSON of that type; one that is not is an `InvalidAnswer`.
            idempotency_key: sent as `Idempotency-Key` with each attempt, for a proxy that charges
                once for all requests with the same key; Google's own API does not.
        """
        answer_type = _answer_type(schema)
        request = self._prompt_request(prompt, system, answer_type, idempotency_key)

        async def generate() -> str:
            with _reading():
                answer = await self._sdk.aio.models.generate_content(**request)
            return _text(answer, answer_type)

        return await self._service.execute(generate, self._policy, _GENERATE)

    def generate_sync(
        self,
        prompt: str,
        *,
        system: str | None = None,
        schema: type | None = None,
        idempotency_key: str | None = None,
    ) -> RetryResult[str]:
        """Do what `generate` does, and block the calling thread meanwhile."""
        answer_type = _answer_type(schema)
        request = self._prompt_request(prompt, system, answer_type, idempotency_key)

        def generate() -> str:
            with _reading():
                answer = self._sdk.models.generate_content(**request)
            return _text(answer, answer_type)

        return self._service.execute_sync(generate, self._policy, _GENERATE)

    async def aclose(self) -> None:
        """Close the connections of both forms."""
        await self._sdk.aio.aclose()
        self._sdk.close()

    def close(self) -> None:
        """Close the connections of the `_sync` forms."""
        self._sdk.close()

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        models = self._sdk.aio.models
        with _reading():
            answer = await models.embed_content(model=self._embedding_model, contents=list(texts))
        return _vectors(answer, len(texts))

    def _embed_sync(self, texts: Sequence[str]) -> list[list[float]]:
        models = self._sdk.models
        with _reading():
            answer = models.embed_content(model=self._embedding_model, contents=list(texts))
        return _vectors(answer, len(texts))

    def _prompt_request(
        self,
        prompt: str,
        system: str | None,
        answer_type: AnswerType[Any] | None,
        idempotency_key: str | None,
    ) -> dict[str, Any]:
        checks.instance("prompt", prompt, str)
        config: dict[str, Any] = {"system_instruction": system}
        if answer_type is not None:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = answer_type.json_schema
        if idempotency_key is not None:
            config["http_options"] = {"headers": {"Idempotency-Key": idempotency_key}}
        return {"model": self._model, "contents": prompt, "config": config}


def _sdk_client(api_key: str, base_url: str | None, timeout: float | None) -> Any:
    """Return the SDK's client with its retries switched off."""
    with from_extra("gemini", "google.genai"):
        from google import genai
        from google.genai import types
    options = types.HttpOptions(
        base_url=base_url,
        # A blocking attempt that is over its time then ends by itself.
        timeout=None if timeout is None else round(timeout * 1000),
        # Not left out: without it the SDK repeats a lost connection of aiohttp by itself.
        retry_options=types.HttpRetryOptions(attempts=1),
    )
    # Said, because the SDK would also look for it in the environment.
    return genai.Client(api_key=api_key, vertexai=False, http_options=options)


def _answer_type(schema: type | None) -> AnswerType[Any] | None:
    return None if schema is None else AnswerType(schema)


def _batches(texts: Sequence[str]) -> list[Sequence[str]]:
    """Return `texts` in parts for one request each."""
    if isinstance(texts, str):
        raise TypeError("texts must be several texts, got one; use generate_embedding for it")
    for text in texts:
        checks.instance("text", text, str)
    return list(batches(texts, _MOST_TEXTS))


@contextmanager
def _reading() -> Iterator[None]:
    """Report an answer that the SDK cannot read as an `InvalidAnswer`."""
    import pydantic
    from google.genai.errors import UnknownApiResponseError

    try:
        yield
    except (json.JSONDecodeError, pydantic.ValidationError, UnknownApiResponseError) as error:
        raise InvalidAnswer(f"the answer of Gemini cannot be read: {error}") from error


def _vectors(answer: Any, expected: int) -> list[list[float]]:
    vectors = [embedding.values for embedding in answer.embeddings or ()]
    if len(vectors) != expected or not all(vectors):
        raise InvalidAnswer(f"Gemini sent {len(vectors)} embeddings for {expected} texts")
    return vectors


def _text(answer: Any, answer_type: AnswerType[Any] | None) -> str:
    text = answer.text
    if not isinstance(text, str) or not text:
        raise _without_text(answer)
    if answer_type is not None:
        answer_type.read(text)
    return text


def _without_text(answer: Any) -> Exception:
    """Return the error for an answer that holds no text."""
    blocked = getattr(answer.prompt_feedback, "block_reason", None)
    if blocked is not None:
        return Permanent(ErrorCode.GW_4XX, f"Gemini refused the prompt: {blocked.value}")
    reasons = [each.finish_reason.value for each in answer.candidates or () if each.finish_reason]
    if any(reason in _REFUSALS for reason in reasons):
        return Permanent(ErrorCode.GW_4XX, f"Gemini refused to answer: {', '.join(reasons)}")
    return InvalidAnswer(f"the answer of Gemini holds no text ({', '.join(reasons) or 'empty'})")


_REFUSALS = frozenset(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"))
"""Reasons to end an answer that depend on the prompt, so that asking again does not help."""
