"""Who sees the dashboard, and who changes what it shows."""

import pytest
from tests.http.live_server import READER
from tests.http.pages.page_reader import Looked

PAGES = (
    "/", "/jobs", "/jobs/x", "/dead-letters", "/dead-letters/requeue", "/dead-letters/discard",
    "/downstreams", "/queues", "/owners", "/periodic", "/outbox", "/workers", "/audit", "/events",
)  # fmt: skip
ACTIONS = (
    "/jobs/x/retry", "/jobs/x/retry-now", "/jobs/x/cancel", "/dead-letters/requeue",
    "/dead-letters/discard", "/dead-letters/stop", "/dead-letters/selected/requeue",
    "/dead-letters/selected/discard", "/downstreams/hold", "/downstreams/release",
    "/downstreams/reset", "/queues/pause", "/queues/resume", "/kinds/pause", "/kinds/resume",
    "/periodic/pause", "/periodic/resume", "/periodic/run", "/outbox/requeue", "/outbox/discard",
    "/workers/finish", "/owners/limit", "/owners/clear",
)  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_a_page_without_login_leads_to_the_login(shown, path):
    stranger = shown.serving.browser(accept="text/html")
    answer = stranger.get(f"/ops{path}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/ops/login?to=/ops{path}")
    update = stranger.get(f"/ops{path}", headers={"hx-request-type": "partial"})
    assert update.status_code == 403


@pytest.mark.parametrize("path", ACTIONS)
def test_an_action_without_login_is_refused(shown, path):
    answer = shown.serving.browser().post(f"/ops{path}", data={"name": "smtp", "id": "x"})
    assert answer.status_code == 403


@pytest.mark.parametrize("path", ACTIONS)
def test_a_reader_changes_nothing(shown, path):
    reader = shown.serving.browser(authorization=f"Bearer {READER}", accept="text/html")
    fields = {"name": "smtp", "id": "x", "confirmed": "1"}
    assert reader.post(f"/ops{path}", data=fields).status_code == 403


@pytest.mark.parametrize("path", PAGES)
def test_a_reader_sees_no_buttons(shown, path):
    if path == "/events" or path.startswith("/dead-letters/"):
        return
    reader = shown.serving.browser(authorization=f"Bearer {READER}", accept="text/html")
    path = f"/jobs/{shown.ids['sync_stock']}" if path == "/jobs/x" else path
    page = Looked(reader.get(f"/ops{path}"))
    assert not page.all("//*[@id='board']//form")
    assert "read-only" in page.text("//*[@class='who']")


def test_a_write_from_another_site_is_refused(shown):
    answer = shown.client.post(
        "/ops/downstreams/hold", data={"name": "smtp"}, headers={"origin": "http://evil.example"}
    )
    assert answer.status_code == 403
    assert not shown.run(shown.engine.downstreams.get("smtp")).circuit.held
