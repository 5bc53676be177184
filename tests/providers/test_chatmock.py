"""ChatMockClient: chats, streams and JSON from a server that speaks OpenAI's format."""

import asyncio
import builtins
from contextlib import aclosing, closing
from dataclasses import dataclass, replace

import msgspec
import openai
import pydantic
import pytest
from tests.support.providers import FORMS, MESSAGES, chatmock, chatted, streamed
from tests.support.waiting import until_sync

from holdfast import RetryService, StopReason, presets
from holdfast.errors import CircuitOpenError, DeadlineExceeded, Permanent
from holdfast.providers import ChatMockClient, InvalidAnswer
from holdfast.testing import VirtualClock
from holdfast.testing.downstream import hang, ok, status


@dataclass
class Point:
    x: int
    y: int


class PointStruct(msgspec.Struct):
    x: int
    y: int


class PointModel(pydantic.BaseModel):
    x: int
    y: int


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture
def call(form, server):
    """Call a method of a client, in either form."""

    def run(method, *arguments, service=None, **options):
        made = chatmock(server, service=service or RetryService(clock=VirtualClock()), **options)
        if form == "sync":
            with closing(made):
                return getattr(made, f"{method}_sync")(*arguments)

        async def scenario():
            async with aclosing(made):
                return await getattr(made, method)(*arguments)

        return asyncio.run(scenario())

    return run


@pytest.fixture
def read(form, server):
    """Read a stream to its end; return its pieces and the error that ended it."""

    def run(*, most=None, **options):
        options.setdefault("service", RetryService(clock=VirtualClock()))
        client, pieces = chatmock(server, **options), []

        def blocking():
            with closing(client), closing(client.stream_sync(MESSAGES)) as stream:
                for piece in stream:
                    pieces.append(piece)
                    if len(pieces) == most:
                        return

        async def asynchronous():
            async with aclosing(client), aclosing(client.stream(MESSAGES)) as stream:
                async for piece in stream:
                    pieces.append(piece)
                    if len(pieces) == most:
                        return

        try:
            blocking() if form == "sync" else asyncio.run(asynchronous())
        except Exception as error:
            return pieces, error
        return pieces, None

    return run


def test_a_chat_is_sent_and_answered(call, server):
    server.script(chatted("Hi."))
    service = RetryService(clock=VirtualClock())
    assert call("chat", MESSAGES, service=service, api_key="key", model="gpt-4").value == "Hi."
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer key"
    assert request.json() == {"model": "gpt-4", "messages": MESSAGES}
    assert service.names() == ["chatmock-chat"]


def test_a_key_of_another_service_is_not_sent(call, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server.script(chatted("Hi."))
    call("chat", MESSAGES)
    assert "secret" not in str(server.requests[0].headers)
    assert server.requests[0].json()["model"] == "gpt-5"


def test_an_empty_text_is_an_answer(call, server):
    server.script(chatted(""))
    assert call("chat", MESSAGES).value == ""


def test_a_refusal_is_permanent(call, server):
    server.script(chatted(None, refusal="I would rather not."))
    result = call("chat", MESSAGES)
    assert (result.stop_reason, len(server.requests)) == (StopReason.PERMANENT, 1)
    assert isinstance(result.error, Permanent)
    assert "I would rather not." in str(result.error)


def test_an_answer_without_text_is_tried_again(call, server):
    server.script(chatted(None), ok(json={"choices": []}), chatted("Hi."))
    result = call("chat", MESSAGES)
    assert (result.value, result.attempts) == ("Hi.", 3)


@pytest.mark.parametrize("messages", ["Hello", {"role": "user", "content": "Hello"}])
def test_messages_that_are_no_list_are_refused_before_any_request(call, server, messages):
    with pytest.raises(TypeError, match="messages must be a list"):
        call("chat", messages)
    assert server.requests == ()


@pytest.mark.parametrize("schema", [Point, PointStruct, PointModel])
def test_json_is_asked_for_by_schema_and_returned_as_that_type(call, server, schema):
    server.script(chatted('{"x": 1, "y": 2}'))
    value = call("chat_json", MESSAGES, schema).value
    assert type(value) is schema
    assert (value.x, value.y) == (1, 2)
    wanted = server.requests[0].json()["response_format"]
    assert (wanted["type"], wanted["json_schema"]["name"]) == ("json_schema", schema.__name__)
    sent = wanted["json_schema"]["schema"]
    assert (sent["type"], sent["required"]) == ("object", ["x", "y"])
    assert sent["properties"]["x"]["type"] == "integer"


def test_each_attempt_sends_the_idempotency_key(form, server):
    server.script(chatted("not JSON"), chatted('{"x": 1, "y": 2}'))
    client = chatmock(server, service=RetryService(clock=VirtualClock()))

    async def ask():
        async with aclosing(client):
            return await client.chat_json(MESSAGES, Point, idempotency_key="request-7")

    if form == "sync":
        with closing(client):
            result = client.chat_json_sync(MESSAGES, Point, idempotency_key="request-7")
    else:
        result = asyncio.run(ask())
    assert result.attempts == 2
    assert [request.headers["idempotency-key"] for request in server.requests] == ["request-7"] * 2


@pytest.mark.parametrize("schema", [Point, PointModel])
@pytest.mark.parametrize("answer", ["1, 2", '{"x": 1}', '{"x": "one", "y": 2}', "[]", ""])
def test_json_that_does_not_fit_is_tried_again(call, server, schema, answer):
    server.script(chatted(answer), chatted('{"x": 1, "y": 2}'))
    result = call("chat_json", MESSAGES, schema)
    assert (result.value.x, result.attempts) == (1, 2)
    assert isinstance(result.history[0].error, InvalidAnswer)
    assert result.history[0].error.answer == answer


def test_a_model_that_never_answers_in_the_form_uses_up_its_attempts_and_no_breaker(call, server):
    server.script(chatted("I am not a parser."))
    service = RetryService(clock=VirtualClock())
    for _ in range(3):
        result = call("chat_json", MESSAGES, Point, service=service)
        assert (result.stop_reason, result.attempts) == (StopReason.ATTEMPTS, 3)
    assert service.circuit_state("chatmock-chat").failure_count == 0


def test_a_type_that_cannot_be_described_is_refused(call, server):
    with pytest.raises(TypeError):
        call("chat_json", MESSAGES, RetryService)
    assert server.requests == ()


# -- streams ------------------------------------------------------------------------------------


def test_a_stream_yields_its_pieces(read, server):
    server.script(streamed(None, "", "He", "llo", None, "."))
    assert read() == (["He", "llo", "."], None)
    assert server.requests[0].json()["stream"] is True


def test_a_stream_without_pieces_ends_at_once(read, server):
    server.script(streamed())
    assert read() == ([], None)


@pytest.mark.parametrize("trouble", [status(503), streamed(then=lambda exchange: exchange.reset())])
def test_a_stream_is_retried_before_its_first_piece(read, server, trouble):
    server.script(trouble, trouble, streamed("Hello"))
    assert read() == (["Hello"], None)
    assert len(server.requests) == 3


def test_a_stream_that_breaks_after_a_piece_is_not_repeated(read, server):
    server.script(streamed("Hel", then=lambda exchange: exchange.reset()))
    pieces, error = read()
    assert pieces == ["Hel"]
    assert error is not None
    assert len(server.requests) == 1


def test_a_piece_that_cannot_be_read_ends_the_stream(read, server):
    async def broken(exchange):
        await exchange.send(b"data: {nope\n\n")
        exchange.close()

    server.script(streamed("Hel", then=broken))
    pieces, error = read()
    assert (pieces, type(error)) == (["Hel"], InvalidAnswer)


def test_the_errors_of_a_stream_that_never_begins_are_raised(read, server):
    server.script(status(401))
    pieces, error = read()
    assert (pieces, type(error)) == ([], openai.AuthenticationError)
    server.script(status(503))
    service = RetryService(clock=VirtualClock())
    read(service=service)
    assert isinstance(read(service=service)[1], CircuitOpenError)


def test_a_stream_whose_first_piece_is_late_is_cut_off_and_begun_again(read, server):
    async def silent(exchange):
        await exchange.wait_for_release()

    server.script(streamed(then=silent), streamed("Hello"))
    backoff = replace(presets.CHATMOCK_API.backoff, base=0.01)
    policy = replace(presets.CHATMOCK_API, attempt_timeout=1.0, backoff=backoff)
    assert read(policy=policy, service=RetryService()) == (["Hello"], None)


def test_a_stream_that_stalls_after_a_piece_ends_by_the_same_time_limit(read, server):
    async def silent(exchange):
        await exchange.wait_for_release()

    server.script(streamed("Hel", then=silent))
    policy = replace(presets.CHATMOCK_API, attempt_timeout=0.5)
    pieces, error = read(policy=policy)
    assert pieces == ["Hel"]
    assert "timed out" in str(error).lower() or "Timeout" in type(error).__name__


def test_a_reader_may_leave_a_stream_early(read, server):
    async def silent(exchange):
        await exchange.wait_for_release()

    server.script(streamed("He", "llo", then=silent))
    assert read(most=2) == (["He", "llo"], None)


def test_a_first_piece_that_comes_after_its_call_has_ended_is_dropped(server):
    server.script(hang(streamed("late")))
    policy = replace(presets.CHATMOCK_API, deadline=0.3)
    service = RetryService()
    with closing(chatmock(server, service=service, policy=policy)) as client:
        with pytest.raises(DeadlineExceeded):
            list(client.stream_sync(MESSAGES))
        assert service.metrics("chatmock-chat").abandoned_threads == 1
        server.release()
        until_sync(lambda: service.metrics("chatmock-chat").abandoned_threads == 0)


def test_a_client_needs_an_address():
    with pytest.raises((TypeError, ValueError), match="base_url"):
        ChatMockClient("")


def test_a_missing_sdk_is_named_with_its_extra(monkeypatch):
    real = builtins.__import__

    def without_openai(name, *rest):
        if name == "openai":
            raise ModuleNotFoundError("No module named 'openai'", name="openai")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_openai)
    with pytest.raises(ImportError, match=r"pip install 'holdfast\[openai\]'"):
        ChatMockClient("http://127.0.0.1:1/v1")
