"""The outbox on its page."""

import pytest


def test_messages_are_listed_by_status(shown):
    page = shown.look("/outbox")
    assert "no queue takes order.placed" in page.text("//tbody/tr")
    assert page.texts("//*[@class='facts']//dd")[:2] == ["0", "1"]
    assert shown.look("/outbox?status=published").text("//*[@class='empty-title']") == (
        "No messages here."
    )
    assert shown.client.get("/ops/outbox?cursor=odd").status_code == 422
    assert shown.client.get("/ops/outbox?status=odd").status_code == 422


def test_a_failed_message_is_requeued_once(dashboard):
    failed = dashboard.ids["failed message"]
    assert dashboard.post("/outbox/requeue", id=failed) == "/outbox?status=failed&note=requeued"
    assert "Pending" in dashboard.look("/outbox").text("//tbody/tr")
    assert dashboard.post("/outbox/requeue", id=failed).endswith("note=INVALID_STATE")


def test_a_message_is_discarded_after_a_question(dashboard):
    failed = dashboard.ids["failed message"]
    question = dashboard.ask("/outbox/discard", id=failed)
    assert (question.text("//h1"), question.one("//input[@name='id']").value) == (
        "Discard this message?",
        failed,
    )
    assert dashboard.run(dashboard.engine.outbox.get(failed)) is not None
    assert dashboard.post("/outbox/discard", id=failed, confirmed="1").endswith("note=discarded")
    assert dashboard.run(dashboard.engine.outbox.get(failed)) is None


@pytest.mark.parametrize("move", ["requeue", "discard"])
def test_an_id_that_no_store_holds_is_refused(shown, move):
    data = {"id": "a\0b", "confirmed": "1"}
    path = f"/ops/outbox/{move}"
    assert shown.client.post(path, data=data).status_code == 422
