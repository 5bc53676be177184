"""The dead letters of a broker for operators: listed, shown, requeued and discarded."""

import asyncio

import pytest

from holdfast.messaging import DeadLetterQueue, QueueSpec, RabbitPublisher

BODY = b'{"requestId": "r1", "skill": "writing"}'
ABOUT = {
    "requestId": "r1", "submissionId": "s1", "failureReason": "GW_5XX", "attemptsMade": 3,
    "lastError": "the provider failed", "timestamp": "2026-01-02T03:04:05+00:00",
}  # fmt: skip


async def fill(url, queue):
    """Put one message into the queue, and one without any header; there is a queue it is from."""
    home = QueueSpec(f"{queue}.home")
    publisher = RabbitPublisher(url, [QueueSpec(queue), home])
    about = {**ABOUT, "originalQueue": home.name}
    await publisher.send(BODY, queue, message_id="m1", message_type=home.name, headers=about)
    await publisher.send(b"\xff", queue, message_id="m2")
    await publisher.close()
    return home.name


@pytest.fixture
def letters(serve, rabbitmq_server, queue_name):
    """A server whose broker holds two dead letters, their queue, and the queue of the first."""
    url = rabbitmq_server.url()
    home = asyncio.run(fill(url, queue_name))
    return serve(dlq=lambda name: DeadLetterQueue(url, name)).admin(), queue_name, home


def test_operators_list_the_messages_of_a_queue_with_their_reasons(letters):
    admin, queue, home = letters
    for _ in range(2):
        answer = admin.get(f"/api/dlq?queue={queue}").json()
        assert answer["queue"] == queue
        first, second = answer["messages"]
        assert first == {"id": "m1", "type": home, "originalQueue": home, **ABOUT}
        assert (second["id"], second["failureReason"], second["attemptsMade"]) == ("m2", None, None)
    assert len(admin.get(f"/api/dlq?queue={queue}&limit=1").json()["messages"]) == 1


def test_one_message_is_shown_with_its_body_and_headers(letters):
    admin, queue, _ = letters
    message = admin.get(f"/api/dlq/m1?queue={queue}").json()["message"]
    assert (message["body"], message["headers"]["requestId"]) == (BODY.decode(), "r1")
    assert admin.get(f"/api/dlq/m2?queue={queue}").json()["message"]["body"] == "\ufffd"
    answer = admin.get(f"/api/dlq/m3?queue={queue}")
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        404,
        "There is no such message.",
    )


def test_a_requeued_message_goes_back_with_its_body_and_a_fresh_budget(
    letters,
    rabbitmq_server,
):
    admin, queue, home = letters
    answer = admin.post(f"/api/dlq/m1/requeue?queue={queue}")
    assert (answer.status_code, answer.json()["message"]["originalQueue"]) == (200, home)
    (back,) = asyncio.run(DeadLetterQueue(rabbitmq_server.url(), home).list())
    assert (back.message_id, back.body) == ("m1", BODY)
    assert "attemptsMade" not in back.headers
    assert admin.post(f"/api/dlq/m1/requeue?queue={queue}").status_code == 404


def test_a_message_that_does_not_say_where_it_is_from_is_requeued_by_name(letters):
    admin, queue, home = letters
    refused = admin.post(f"/api/dlq/m2/requeue?queue={queue}")
    assert refused.status_code == 409
    assert "does not say which queue" in refused.json()["error"]["message"]
    assert admin.post(f"/api/dlq/m2/requeue?queue={queue}&to=nowhere").status_code == 409
    assert admin.post(f"/api/dlq/m2/requeue?queue={queue}&to={home}").status_code == 200
    (entry,) = admin.get("/api/audit").json()["entries"]
    assert (entry["target"], entry["detail"]) == ("m2", {"queue": queue, "to": home})


def test_a_discarded_message_is_gone(letters):
    admin, queue, _ = letters
    assert admin.delete(f"/api/dlq/m1?queue={queue}").json()["message"]["id"] == "m1"
    (entry,) = admin.get("/api/audit").json()["entries"]
    assert (entry["target"], entry["detail"]) == ("m1", {"queue": queue})
    assert admin.delete(f"/api/dlq/m1?queue={queue}").status_code == 404
    assert [each["id"] for each in admin.get(f"/api/dlq?queue={queue}").json()["messages"]] == [
        "m2"
    ]


def test_an_unknown_queue_and_a_refused_password_are_named(serve, rabbitmq_server):
    passwords = iter(["guest", "wrong"])
    serving = serve(dlq=lambda name: DeadLetterQueue(rabbitmq_server.url(next(passwords)), name))
    admin = serving.admin()
    unknown, refused = admin.get("/api/dlq?queue=none"), admin.get("/api/dlq")
    assert (unknown.status_code, refused.status_code) == (409, 409)
    assert "has no queue 'none'" in unknown.json()["error"]["message"]
    assert "refuses the user name or the password" in refused.json()["error"]["message"]


def test_a_broker_that_does_not_answer_is_asked_again_later(serve):
    serving = serve(dlq=lambda name: DeadLetterQueue("amqp://127.0.0.1:1/", name))
    answer = serving.admin().get("/api/dlq")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == "GW_UNAVAILABLE"


def test_without_a_broker_the_routes_say_so(serving):
    answer = serving.admin().get("/api/dlq")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "INVALID_STATE")
    assert "RABBITMQ_URL is not set" in answer.json()["error"]["message"]


def test_only_operators_reach_the_dead_letters(serving):
    for method, path in (
        ("GET", ""), ("GET", "/m1"), ("POST", "/m1/requeue"), ("DELETE", "/m1"),
    ):  # fmt: skip
        assert serving.client.request(method, f"/api/dlq{path}").status_code == 403
