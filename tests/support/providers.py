"""Model providers for tests: scripted servers that speak the wire formats of the vendors."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast import RetryPolicy, RetryResult, RetryService, presets
from holdfast.providers import ChatMockClient, GeminiClient
from holdfast.testing import VirtualClock
from holdfast.testing.downstream import Behaviour, Exchange, ScriptedDownstream, ok, reply

MESSAGES = [{"role": "user", "content": "Hello"}]
FORMS = ("async", "sync")
WRONG_KEY = {
    "error": {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [{"reason": "API_KEY_INVALID", "domain": "googleapis.com"}],
    }
}
"""What Gemini answers, with status 400, to a key that it does not know."""


def embeddings(*vectors: list[float]) -> Behaviour:
    """Answer as `batchEmbedContents` does."""
    return ok(json={"embeddings": [{"values": vector} for vector in vectors]})


def embed_each() -> Behaviour:
    """Answer every text of a request with its length as the embedding."""

    def choose(request: Any) -> Behaviour:
        texts = [each["content"]["parts"][0]["text"] for each in request.json()["requests"]]
        return embeddings(*([float(len(text))] for text in texts))

    return reply(choose)


def generated(text: str, finish: str = "STOP") -> Behaviour:
    """Answer as `generateContent` does."""
    content = {"role": "model", "parts": [{"text": text}]}
    return ok(json={"candidates": [{"content": content, "finishReason": finish}]})


def chatted(content: str | None, **message: Any) -> Behaviour:
    """Answer as `/chat/completions` does."""
    answer = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": answer, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return ok(json=body)


def streamed(*pieces: str | None, then: Callable[[Exchange], Any] | None = None) -> Behaviour:
    """Send `pieces` as server-sent events, then `[DONE]`, or what `then` does instead."""

    async def behaviour(exchange: Exchange) -> None:
        await exchange.send_head(200, {"Content-Type": "text/event-stream", "Connection": "close"})
        for piece in pieces:
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            event = json.dumps({**chunk, "choices": [choice]})
            await exchange.send(f"data: {event}\n\n".encode())
        if then is None:
            await exchange.send(b"data: [DONE]\n\n")
            exchange.close()
        else:
            await _perhaps_awaited(then(exchange))

    return behaviour


async def _perhaps_awaited(value: Any) -> None:
    if value is not None:
        await value


@dataclass(frozen=True)
class Provider:
    """A client with one of its calls, and an answer to that.

    Args:
        name: the name that the call runs as.
        preset: its policy.
        good: an answer that the call takes.
        value: what the call makes of it.
        make: makes the client for a server.
        method: the method to call, without `_sync`.
        arguments: what to call it with.
    """

    name: str
    preset: RetryPolicy
    good: Behaviour
    value: Any
    make: Callable[..., Any]
    method: str
    arguments: tuple[Any, ...]

    def call(
        self,
        form: str,
        server: ScriptedDownstream,
        *,
        service: RetryService | None = None,
        times: int = 1,
        **options: Any,
    ) -> list[RetryResult[Any]]:
        """Call the server `times` times in a row, waiting virtually between attempts."""
        service = service or RetryService(clock=VirtualClock())
        if form == "sync":
            with contextlib.closing(self.make(server, service=service, **options)) as client:
                method = getattr(client, f"{self.method}_sync")
                return [method(*self.arguments) for _ in range(times)]

        async def calls() -> list[RetryResult[Any]]:
            async with contextlib.aclosing(self.make(server, service=service, **options)) as client:
                method = getattr(client, self.method)
                return [await method(*self.arguments) for _ in range(times)]

        return asyncio.run(calls())


def gemini(server: ScriptedDownstream, **options: Any) -> GeminiClient:
    """Return a client of `server`."""
    return GeminiClient("key", base_url=server.url, **options)


def chatmock(server: ScriptedDownstream, **options: Any) -> ChatMockClient:
    """Return a client of `server`."""
    return ChatMockClient(f"{server.url}/v1", **options)


GEMINI = Provider(
    "gemini-embedding", presets.GEMINI_API, embeddings([1.0, 2.0]), [1.0, 2.0], gemini,
    "generate_embedding", ("a text",),
)  # fmt: skip
CHATMOCK = Provider(
    "chatmock-chat", presets.CHATMOCK_API, chatted("Hi."), "Hi.", chatmock, "chat", (MESSAGES,)
)
PROVIDERS = (GEMINI, CHATMOCK)
