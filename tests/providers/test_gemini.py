"""GeminiClient: embeddings, texts and JSON from a server that speaks Gemini's format."""

import asyncio
import builtins
import json
from contextlib import aclosing, closing
from dataclasses import dataclass

import pytest
from tests.support.providers import FORMS, embed_each, embeddings, gemini, generated

from holdfast import RateLimit, RetryService, StopReason
from holdfast.errors import Permanent
from holdfast.providers import GeminiClient, InvalidAnswer
from holdfast.testing import VirtualClock
from holdfast.testing.downstream import ok, status


@dataclass
class City:
    name: str
    people: int


@pytest.fixture(params=FORMS)
def call(request, server):
    """Call a method of a client, in either form."""

    def run(method, *arguments, service=None, client=None, **options):
        made = gemini(server, service=service or RetryService(clock=VirtualClock()), **client or {})
        if request.param == "sync":
            with closing(made):
                return getattr(made, f"{method}_sync")(*arguments, **options)

        async def scenario():
            async with aclosing(made):
                return await getattr(made, method)(*arguments, **options)

        return asyncio.run(scenario())

    return run


def test_an_embedding_is_made_by_the_embedding_model(call, server):
    server.script(embeddings([0.5, -1.5]))
    service = RetryService(clock=VirtualClock())
    assert call("generate_embedding", "Hello", service=service).value == [0.5, -1.5]
    (request,) = server.requests
    assert request.path.endswith("/models/gemini-embedding-001:batchEmbedContents")
    assert request.headers["x-goog-api-key"] == "key"
    assert request.json()["requests"][0]["content"]["parts"] == [{"text": "Hello"}]
    assert service.names() == ["gemini-embedding"]


def test_other_models_can_be_chosen(call, server):
    server.script(embeddings([1.0]))
    call("generate_embedding", "Hello", client={"embedding_model": "other-embedding"})
    server.script(generated("Hi."))
    call("generate", "Hello", client={"model": "other-model"})
    paths = [request.path.partition("/models/")[2] for request in server.requests]
    assert paths == ["other-embedding:batchEmbedContents", "other-model:generateContent"]


def test_many_texts_are_embedded_in_batches_and_keep_their_order(call, server):
    server.script(embed_each())
    result = call("generate_embeddings", ["x" * length for length in range(1, 251)])
    assert result.value == [[float(length)] for length in range(1, 251)]
    assert [len(request.json()["requests"]) for request in server.requests] == [100, 100, 50]
    assert (result.attempts, result.stop_reason) == (3, StopReason.SUCCESS)


def test_a_batch_that_fails_is_repeated_alone(call, server):
    server.script(embed_each(), status(503), embed_each())
    result = call("generate_embeddings", ["x"] * 150)
    assert len(result.value) == 150
    assert [len(request.json()["requests"]) for request in server.requests] == [100, 50, 50]
    assert (result.attempts, len(result.history)) == (3, 1)


def test_a_batch_that_fails_for_good_ends_the_call(call, server):
    server.script(embed_each(), status(400), embed_each())
    result = call("generate_embeddings", ["x"] * 350)
    assert (result.value, result.stop_reason) == (None, StopReason.PERMANENT)
    assert (result.attempts, len(server.requests)) == (2, 2)


def test_no_texts_take_no_request(call, server):
    result = call("generate_embeddings", [])
    assert (result.ok, result.value, result.attempts) == (True, [], 0)
    assert server.requests == ()


@pytest.mark.parametrize(
    "answer", [embeddings([1.0]), embeddings([1.0], []), embeddings([1.0], [2.0], [3.0])]
)
def test_as_many_embeddings_as_texts_must_come(call, server, answer):
    server.script(answer)
    result = call("generate_embeddings", ["one", "two"])
    assert isinstance(result.error, InvalidAnswer)
    assert result.attempts == 3


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("generate_embedding", 7),
        ("generate_embedding", None),
        ("generate_embeddings", "one text"),
        ("generate_embeddings", ["a", 7]),
        ("generate", b"bytes"),
    ],
)
def test_what_is_no_text_is_refused_before_any_request(call, server, method, argument):
    with pytest.raises(TypeError, match=r"text|prompt"):
        call(method, argument)
    assert server.requests == ()


def test_a_text_is_generated_with_the_system_instruction(call, server):
    server.script(generated("Paris."))
    service = RetryService(clock=VirtualClock())
    result = call("generate", "Capital of France?", system="Be brief.", service=service)
    assert result.value == "Paris."
    body = server.requests[0].json()
    assert body["contents"][0]["parts"] == [{"text": "Capital of France?"}]
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert service.names() == ["gemini-generate"]


def test_an_answer_by_schema_is_asked_for_and_checked(call, server):
    server.script(generated('{"name": "Paris"}'), generated('{"name": "Paris", "people": 2}'))
    result = call("generate", "Capital of France?", schema=City)
    assert json.loads(result.value) == {"name": "Paris", "people": 2}
    assert result.attempts == 2
    assert isinstance(result.history[0].error, InvalidAnswer)
    wanted = server.requests[0].json()["generationConfig"]
    assert wanted["responseMimeType"] == "application/json"
    assert wanted["responseJsonSchema"]["required"] == ["name", "people"]


def test_the_idempotency_key_is_sent_as_a_header(call, server):
    server.script(generated("Hi."))
    assert call("generate", "Hello", idempotency_key="request-7").value == "Hi."
    assert server.requests[0].headers["idempotency-key"] == "request-7"


@pytest.mark.parametrize(
    "answer",
    [
        ok(json={"promptFeedback": {"blockReason": "SAFETY"}}),
        ok(json={"candidates": [{"finishReason": "RECITATION"}]}),
    ],
)
def test_a_refusal_is_permanent(call, server, answer):
    server.script(answer)
    result = call("generate", "Hello")
    assert isinstance(result.error, Permanent)
    assert "refused" in str(result.error)
    assert (result.attempts, len(server.requests)) == (1, 1)


def test_an_answer_without_text_is_tried_again(call, server):
    server.script(ok(json={"candidates": [{"finishReason": "MAX_TOKENS"}]}), generated("Hi."))
    result = call("generate", "Hello")
    assert result.value == "Hi."
    assert "holds no text (MAX_TOKENS)" in str(result.history[0].error)


def test_the_policys_own_rate_holds_without_a_shared_one(call, server):
    server.script(embeddings([1.0]))
    clock = VirtualClock()
    service = RetryService(clock=clock)
    rate = {"rate": RateLimit(per_day=2)}
    results = [call("generate_embedding", "a", service=service, client=rate) for _ in range(3)]
    assert [result.ok for result in results] == [True, True, False]
    assert results[2].stop_reason is StopReason.RATE_LIMIT
    assert len(server.requests) == 2


def test_the_preset_allows_100_requests_a_minute_and_1000_a_day():
    from holdfast import presets

    assert presets.GEMINI_API.rate == RateLimit(per_minute=100, per_day=1000)


def test_the_environment_does_not_redirect_the_client(monkeypatch, server):
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_API_KEY", "another key")
    server.script(embeddings([1.0]))
    with closing(gemini(server)) as client:
        assert client.generate_embedding_sync("a").ok
    assert server.requests[0].headers["x-goog-api-key"] == "key"


@pytest.mark.parametrize("key", ["", None, 7])
def test_a_client_needs_a_key(key):
    with pytest.raises((TypeError, ValueError), match="api_key"):
        GeminiClient(key)


def test_a_missing_sdk_is_named_with_its_extra(monkeypatch):
    real = builtins.__import__

    def without_genai(name, *rest):
        if name.startswith("google"):
            raise ModuleNotFoundError("No module named 'google'", name="google")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_genai)
    with pytest.raises(ImportError, match=r"pip install 'holdfast\[gemini\]'"):
        GeminiClient("key")
