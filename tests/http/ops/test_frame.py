"""What all pages share: navigation, partial answers, notes and refusals."""

import logging

import pytest

from holdfast import Engine
from holdfast.http import HttpSettings, create_app

TITLES = {
    "/": "Overview",
    "/jobs": "Jobs",
    "/dead-letters": "Dead letters",
    "/downstreams": "Downstreams",
    "/queues": "Queues and kinds",
    "/owners": "Owners",
    "/periodic": "Periodic jobs",
    "/outbox": "Outbox",
    "/workers": "Workers",
    "/audit": "Audit log",
}


@pytest.mark.parametrize(("path", "title"), TITLES.items())
def test_every_page_is_in_the_navigation_and_says_which_it_is(shown, path, title):
    page = shown.look(path)
    assert page.text("//h1") == title
    assert page.one("//nav[@aria-label='Operations']//a[@aria-current='page']").get("href") == (
        f"/ops{path}"
    )
    assert page.one("//*[@id='live']").get("hx-sse:connect", "/ops/events") == "/ops/events"
    assert "script-src 'self'" in page.answer.headers["content-security-policy"]


def test_htmx_is_answered_with_the_part_that_changes(shown):
    answer = shown.client.get("/ops/downstreams?note=reset", headers={"hx-request-type": "partial"})
    assert answer.text.lstrip().startswith('<section class="board"')
    assert "Its breaker is closed" in answer.headers["hx-trigger"]
    assert 'hx-get="/ops/downstreams"' in answer.text


def test_a_note_is_one_of_ours(shown):
    assert "held until it is released" in shown.look("/queues?note=held").text("//*[@id='toast']")
    assert shown.look("/queues?note=<b>").text("//*[@id='toast']") == ""
    assert shown.look("/queues?note=INVALID_STATE").text("//*[@id='toast']")


def test_what_is_not_there_is_a_page_that_says_so(shown):
    assert shown.look("/nothing", 404).text("//h1") == "Not found."
    missing = shown.look("/jobs/unknown", 403)
    assert missing.text("//h1") == "That is not possible."
    assert "There is no job with this id." in missing.text("//main")


def test_the_bare_path_leads_to_the_dashboard(shown):
    answer = shown.client.get("/ops")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ops/")


def test_a_change_whose_audit_entry_fails_is_in_the_log_with_who_made_it(
    dashboard, monkeypatch, caplog
):
    async def broken(*_args, **_options):
        raise RuntimeError("the audit log is broken")

    monkeypatch.setattr(dashboard.engine.store, "add_audit", broken)
    with caplog.at_level(logging.ERROR, "holdfast.audit"):
        answer = dashboard.client.post("/ops/queues/pause", data={"name": "payments"})
    assert answer.status_code == 500
    assert "queues.pause payments" in caplog.text


def test_a_server_whose_dashboard_lacks_files_does_not_start(tmp_path, monkeypatch):
    """Its routes are built at the first request, which would be the first to show it."""
    monkeypatch.setattr("holdfast.http.ops.frame._HERE", tmp_path)
    engine = Engine(f"sqlite:///{tmp_path / 'work.db'}")
    settings = HttpSettings("k" * 32, "admin-token-of-a-test")
    with pytest.raises(ValueError, match=r"lacks files of the dashboard.*ops/ops\.css"):
        create_app(engine, [], settings)
