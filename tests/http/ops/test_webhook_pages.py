"""The pages of webhooks: the addresses of all owners, the log of deliveries, test and removal."""

import pytest
from tests.http.live_server import READER, Serving
from tests.http.ops.busy_shop import busy_app
from tests.http.ops.conftest import Dashboard

from holdfast.fetch import FETCH_ERRORS, Fetcher
from holdfast.jobs.declare.webhook_job import KIND
from holdfast.testing.downstream import ScriptedDownstream, ok, status
from holdfast.webhooks import webhooks_app


@pytest.fixture
def delivering(tmp_path):
    """A dashboard of a server that delivers webhooks, also to this machine."""
    app = webhooks_app(Fetcher(allow_private=True), errors=FETCH_ERRORS)
    with Serving(tmp_path, busy_app(), others=[app], reader_token=READER) as serving:
        yield Dashboard(serving)


def add(dashboard, url, **options):
    return dashboard.run(dashboard.engine.webhooks.add(url, **options)).id


def deliver(dashboard):
    dashboard.run(dashboard.engine.work(until_idle=True, queues=["holdfast-webhooks"]))


def actions(dashboard):
    entries = dashboard.run(dashboard.engine.audit.list()).entries
    return [(entry.action, entry.target) for entry in entries]


def test_the_webhooks_of_all_owners_are_listed_newest_first(delivering):
    add(delivering, "https://example.org/a", owner="ann", kinds=["shop.mail"], events=["failed"])
    add(delivering, "https://example.org/b")

    page = delivering.look("/webhooks")

    assert page.texts("//tbody/tr/th") == ["https://example.org/b", "https://example.org/a"]
    assert page.texts("//tbody/tr[2]/td")[:3] == ["failed", "shop.mail", "ann"]
    assert page.texts("//tbody/tr[1]/td")[1:3] == ["All", "All owners"]


def test_only_the_newest_webhooks_are_read(delivering, monkeypatch):
    monkeypatch.setattr("holdfast.http.ops.webhook_pages._MOST", 2)
    for name in "abc":
        add(delivering, f"https://example.org/{name}")

    page = delivering.look("/webhooks")

    assert page.texts("//tbody/tr/th") == ["https://example.org/c", "https://example.org/b"]
    assert "Only the newest 2 are shown." in page.texts("//p[@class='scope']")


def test_a_test_message_is_sent_and_the_log_shows_what_came_of_it(delivering):
    with ScriptedDownstream(ok()) as receiver:
        webhook = add(delivering, f"{receiver.url}/hooks")
        assert "Nothing was sent yet." in delivering.look(f"/webhooks/{webhook}").text("//article")

        assert delivering.post(f"/webhooks/{webhook}/test").endswith("note=tested")
        deliver(delivering)

    (row,) = delivering.look(f"/webhooks/{webhook}").texts("//tbody/tr")
    assert "Accepted" in row
    assert "answered 200" in row
    assert actions(delivering) == [("webhooks.test", webhook)]


def test_a_delivery_that_failed_says_why(delivering):
    with ScriptedDownstream(status(410)) as receiver:
        webhook = add(delivering, f"{receiver.url}/hooks")
        delivering.post(f"/webhooks/{webhook}/test")
        deliver(delivering)

    assert "Failed" in delivering.look(f"/webhooks/{webhook}").text("//tbody/tr")


def test_deliveries_are_paused_and_resumed_for_all(delivering):
    assert delivering.post("/webhooks/deliveries/pause").endswith("note=deliveries-paused")
    assert "Deliveries paused" in delivering.look("/webhooks").text("//*[@id='deliveries']")
    kinds = {each.name: each.paused for each in delivering.run(delivering.engine.kinds.list())}
    assert kinds[KIND]
    delivering.post("/webhooks/deliveries/resume")
    assert "Deliveries on" in delivering.look("/webhooks").text("//*[@id='deliveries']")
    assert actions(delivering) == [("webhooks.resume", ""), ("webhooks.pause", "")]


def test_a_webhook_is_removed_after_a_question(delivering):
    webhook = add(delivering, "https://example.org/a")

    question = delivering.ask(f"/webhooks/{webhook}/remove")

    assert question.text("//h1") == "Remove this webhook?"
    assert delivering.run(delivering.engine.webhooks.get(webhook))
    assert delivering.post(f"/webhooks/{webhook}/remove", confirmed="1").endswith("note=removed")
    assert "No webhooks." in delivering.look("/webhooks").text("//section")
    assert actions(delivering) == [("webhooks.remove", webhook)]


def test_a_reader_sees_webhooks_and_changes_none(delivering):
    webhook = add(delivering, "https://example.org/a")
    reader = delivering.serving.browser(accept="text/html", authorization=f"Bearer {READER}")

    for path in ("/webhooks", f"/webhooks/{webhook}"):
        page = reader.get(f"/ops{path}")
        assert (page.status_code, f"/{webhook}/remove" in page.text) == (200, False)
    for path in (f"{webhook}/test", f"{webhook}/remove", "deliveries/pause", "deliveries/resume"):
        answer = reader.post(f"/ops/webhooks/{path}", data={"confirmed": "1"})
        assert answer.status_code == 403
    assert actions(delivering) == []
    assert len(delivering.run(delivering.engine.webhooks.list())) == 1


def test_a_server_that_delivers_none_says_so_and_refuses_a_test(dashboard):
    webhook = add(dashboard, "https://example.org/a")

    assert "No app of this server" in dashboard.look("/webhooks").text("//section")
    assert dashboard.client.post(f"/ops/webhooks/{webhook}/test").status_code == 409
    assert actions(dashboard) == []


@pytest.mark.parametrize("webhook_id", ["none", "x" * 50, "a%00b"])
def test_a_webhook_that_is_not_there_is_refused(shown, webhook_id):
    assert shown.client.get(f"/ops/webhooks/{webhook_id}").status_code == 403
