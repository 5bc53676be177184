"""`ChatMockClient`: chats with an OpenAI-compatible server, through OpenAI's own SDK."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from holdfast.errors import ErrorCode, Permanent
from holdfast.providers.answers import AnswerType, InvalidAnswer
from holdfast.providers.extras import from_extra
from holdfast.resilience import checks, presets
from holdfast.resilience.policy import ExternalRate, RateLimit, RetryPolicy
from holdfast.resilience.result import RetryResult
from holdfast.resilience.service import RetryService
from holdfast.time_limit import cancelled

T = TypeVar("T")

_CHAT = "chatmock-chat"
_NO_KEY = "none"
"""The SDK insists on a key, and would take the one of another service from the environment."""

Messages = Sequence[Mapping[str, Any]]
"""A chat: `{"role": "user", "content": "…"}` and so on."""


class ChatMockClient:
    """Chat with an OpenAI-compatible server. Every method has a `_sync` form that blocks.

    All calls go to one address of the server, so they share one name, `chatmock-chat`, and its
    breaker. A refusal by the model ends the call with `Permanent`; an answer without text, or
    without the JSON that was asked for, is an `InvalidAnswer`.

    Args:
        base_url: the server's address with the path of the API: `http://127.0.0.1:8000/v1`.
        api_key: sent as a bearer token; a ChatMock server needs none.
        model: the name of the model.
        service: runs the calls; by default one of this client's own.
        policy: its time limits, retries and breaker.
        rate: takes the place of the policy's rate; `Engine.shared_rate` counts for all processes.

    Raises:
        ImportError: the extra `holdfast[openai]` is not installed.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str = "gpt-5",
        service: RetryService | None = None,
        policy: RetryPolicy = presets.CHATMOCK_API,
        rate: RateLimit | ExternalRate | None = None,
    ) -> None:
        checks.label("base_url", base_url)
        with from_extra("openai", "openai"):
            import openai
        self._policy = policy if rate is None else replace(policy, rate=rate)
        self._service = service or RetryService()
        self._model = model
        options: dict[str, Any] = {
            "base_url": base_url,
            "api_key": api_key or _NO_KEY,
            "max_retries": 0,
            # A blocking attempt that is over its time then ends by itself.
            "timeout": policy.attempt_timeout,
        }
        self._async = openai.AsyncOpenAI(**options)
        self._blocking = openai.OpenAI(**options)

    async def chat(self, messages: Messages) -> RetryResult[str]:
        """Return the model's answer to `messages`."""
        return await self._ask(self._request(messages), str)

    def chat_sync(self, messages: Messages) -> RetryResult[str]:
        """Do what `chat` does, and block the calling thread meanwhile."""
        return self._ask_sync(self._request(messages), str)

    async def chat_json(
        self, messages: Messages, schema: type[T], *, idempotency_key: str | None = None
    ) -> RetryResult[T]:
        """Return the model's answer to `messages` as a value of the type `schema`.

        Args:
            messages: the chat.
            schema: a dataclass, msgspec Struct, TypedDict or pydantic model. The server is asked
                for JSON of that type, and the answer is checked: one that does not fit is an
                `InvalidAnswer`, which is tried again as other transient errors are.
            idempotency_key: sent as `Idempotency-Key` with each attempt, for a server that charges
                once for all requests with the same key.
        """
        answer_type = AnswerType(schema)
        request = self._request(messages, answer_type, idempotency_key)
        return await self._ask(request, answer_type.read)

    def chat_json_sync(
        self, messages: Messages, schema: type[T], *, idempotency_key: str | None = None
    ) -> RetryResult[T]:
        """Do what `chat_json` does, and block the calling thread meanwhile."""
        answer_type = AnswerType(schema)
        request = self._request(messages, answer_type, idempotency_key)
        return self._ask_sync(request, answer_type.read)

    async def stream(self, messages: Messages) -> AsyncIterator[str]:
        """Yield the model's answer to `messages` in pieces, as they arrive.

        Retries, breaker and time limit hold until the first piece. After it nothing is repeated,
        as the caller has used what came; an error then ends the iteration at once. The time limit
        of an attempt then holds for the wait between two pieces. Use `contextlib.aclosing` where
        the iteration may end early.

        Raises:
            Exception: the error that ended the call.
        """
        request = self._request(messages, stream=True)

        async def begin() -> tuple[Any, AsyncIterator[str], str | None]:
            response = await self._async.chat.completions.create(**request)
            pieces = _pieces_async(response)
            try:
                return response, pieces, await anext(pieces, None)
            except BaseException:
                await response.close()
                raise

        response, pieces, first = await self._started(begin)
        try:
            if first is not None:
                yield first
                async for piece in pieces:
                    yield piece
        finally:
            await response.close()

    def stream_sync(self, messages: Messages) -> Iterator[str]:
        """Do what `stream` does, and block the calling thread meanwhile."""
        request = self._request(messages, stream=True)

        def begin() -> tuple[Any, Iterator[str], str | None]:
            response = self._blocking.chat.completions.create(**request)
            pieces = _pieces(response)
            try:
                first = next(pieces, None)
                if cancelled():  # the caller has gone on without this attempt
                    raise InvalidAnswer("the first piece came too late")
            except BaseException:
                response.close()
                raise
            return response, pieces, first

        result = self._service.execute_sync(begin, self._policy, _CHAT)
        response, pieces, first = result.unwrap()
        try:
            if first is not None:
                yield first
                yield from pieces
        finally:
            response.close()

    async def aclose(self) -> None:
        """Close the connections of both forms."""
        await self._async.close()
        self._blocking.close()

    def close(self) -> None:
        """Close the connections of the `_sync` forms."""
        self._blocking.close()

    async def _ask(self, request: dict[str, Any], read: Callable[[str], T]) -> RetryResult[T]:
        async def ask() -> T:
            try:
                answer = await self._async.chat.completions.create(**request)
            except json.JSONDecodeError as error:
                raise _unreadable(error) from error
            return read(_text(answer))

        return await self._service.execute(ask, self._policy, _CHAT)

    def _ask_sync(self, request: dict[str, Any], read: Callable[[str], T]) -> RetryResult[T]:
        def ask() -> T:
            try:
                answer = self._blocking.chat.completions.create(**request)
            except json.JSONDecodeError as error:
                raise _unreadable(error) from error
            return read(_text(answer))

        return self._service.execute_sync(ask, self._policy, _CHAT)

    async def _started(self, begin: Callable[[], Any]) -> Any:
        return (await self._service.execute(begin, self._policy, _CHAT)).unwrap()

    def _request(
        self,
        messages: Messages,
        answer_type: AnswerType[Any] | None = None,
        idempotency_key: str | None = None,
        *,
        stream: bool = False,
    ) -> dict[str, Any]:
        if isinstance(messages, str | Mapping):
            raise TypeError(
                'messages must be a list such as [{"role": "user", "content": "Hello"}], '
                f"got {messages!r}"
            )
        request: dict[str, Any] = {"model": self._model, "messages": list(messages)}
        if stream:
            request["stream"] = True
        if idempotency_key is not None:
            request["extra_headers"] = {"Idempotency-Key": idempotency_key}
        if answer_type is not None:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": answer_type.name, "schema": answer_type.json_schema},
            }
        return request


def _unreadable(error: Exception) -> InvalidAnswer:
    return InvalidAnswer(f"the server's answer cannot be read: {error}")


def _text(answer: Any) -> str:
    choices = getattr(answer, "choices", None)  # the SDK returns what is not JSON as it is
    message = choices[0].message if choices else None
    if message is None:
        raise InvalidAnswer("the server's answer is not one of a chat")
    if getattr(message, "refusal", None):
        raise Permanent(ErrorCode.GW_4XX, f"the model refused to answer: {message.refusal}")
    if not isinstance(message.content, str):
        raise InvalidAnswer("the model's answer holds no text")
    return message.content


def _pieces(response: Any) -> Iterator[str]:
    try:
        for chunk in response:
            if piece := _piece(chunk):
                yield piece
    except json.JSONDecodeError as error:
        raise _unreadable(error) from error


async def _pieces_async(response: Any) -> AsyncIterator[str]:
    try:
        async for chunk in response:
            if piece := _piece(chunk):
                yield piece
    except json.JSONDecodeError as error:
        raise _unreadable(error) from error


def _piece(chunk: Any) -> str | None:
    choices = getattr(chunk, "choices", None)
    piece: str | None = choices[0].delta.content if choices else None
    return piece
