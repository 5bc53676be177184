"""The outbox for operators: listed, requeued, discarded and measured."""

import apsw
import pytest
from tests.support.publishers import ScriptedPublisher

from holdfast.outbox import MessageRefused, RelayOptions


async def fill(engine):
    """Add three messages, let one fail and one be published, and return their ids."""

    def script(message):
        if message.aggregate_id == "failed":
            raise MessageRefused("no queue")
        if message.aggregate_id == "pending":
            raise ZeroDivisionError

    connection = apsw.Connection(str(engine.store.path))
    found = {}
    for aggregate in ("published", "failed"):
        with connection:
            found[aggregate] = await engine.outbox.add(connection, aggregate, "order.placed", {})
    relay = engine.relay(ScriptedPublisher(script), RelayOptions(max_attempts=1))
    await relay.run(until_idle=True)
    with connection:
        found["pending"] = await engine.outbox.add(connection, "pending", "order.placed", {})
    connection.close()
    return found


@pytest.fixture
def filled(serving):
    return serving, serving.run(fill(serving.engine))


def test_operators_list_messages_and_see_the_backlog(filled):
    serving, ids = filled
    answer = serving.admin().get("/api/outbox?limit=2").json()
    assert [message["id"] for message in answer["messages"]] == [ids["pending"], ids["failed"]]
    assert (answer["backlog"]["pending"], answer["backlog"]["failed"]) == (1, 1)
    rest = serving.admin().get(f"/api/outbox?cursor={answer['nextCursor']}").json()
    assert [message["aggregateId"] for message in rest["messages"]] == ["published"]
    assert rest["messages"][0]["processedAt"].endswith("Z")
    failed = serving.admin().get("/api/outbox?status=failed").json()["messages"]
    assert [(message["id"], message["errorMessage"]) for message in failed] == [
        (ids["failed"], "no queue")
    ]


def test_a_failed_message_is_requeued_or_discarded(filled):
    serving, ids = filled
    admin = serving.admin()
    answer = admin.post(f"/api/outbox/{ids['failed']}/requeue")
    assert (answer.status_code, answer.json()["message"]["status"]) == (200, "pending")
    assert admin.post(f"/api/outbox/{ids['failed']}/requeue").status_code == 409
    assert admin.delete(f"/api/outbox/{ids['published']}").status_code == 409
    assert admin.delete("/api/outbox/unknown").status_code == 404
    assert admin.get("/api/outbox?cursor=odd").status_code == 422


def test_a_discarded_message_is_gone(filled):
    serving, ids = filled
    admin = serving.admin()
    assert admin.delete(f"/api/outbox/{ids['failed']}").json()["message"]["id"] == ids["failed"]
    assert admin.delete(f"/api/outbox/{ids['failed']}").status_code == 404


def test_only_operators_reach_the_outbox(filled):
    serving, ids = filled
    assert serving.client.get("/api/outbox").status_code == 403
    assert serving.client.delete(f"/api/outbox/{ids['failed']}").status_code == 403


def test_the_metrics_show_backlog_and_lag(filled):
    serving, _ = filled
    text = serving.client.get("/metrics").text
    assert 'holdfast_outbox_messages{status="pending"} 1' in text
    assert 'holdfast_outbox_messages{status="failed"} 1' in text
    assert "holdfast_outbox_lag_seconds " in text
