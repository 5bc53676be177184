"""The page of the intake: open, paused with a reason, closed for files; only the full role acts."""

import pytest
from tests.http.live_server import READER

from holdfast.http.intake_gate import IntakeState


def state_of(page):
    return page.text("//*[@id='intake']//*[@class='status']")


def test_a_pause_is_shown_with_its_reason_until_it_is_resumed(dashboard):
    assert state_of(dashboard.look("/intake")) == "Open"

    assert dashboard.post("/intake/pause", reason="the disk is replaced").endswith("intake-paused")

    page = dashboard.look("/intake")
    assert state_of(page) == "Paused"
    assert "the disk is replaced" in page.text("//*[@id='intake']")
    assert dashboard.run(dashboard.engine.intake.state()).reason == "the disk is replaced"
    dashboard.post("/intake/resume")
    dashboard.post("/intake/resume")
    assert state_of(dashboard.look("/intake")) == "Open"
    entries = dashboard.run(dashboard.engine.audit.list()).entries
    assert [(entry.action, entry.detail) for entry in entries] == [
        ("intake.resume", {}),
        ("intake.pause", {"reason": "the disk is replaced"}),
    ]


@pytest.mark.parametrize("reason", ["", "two\nlines", "x" * 501])
def test_a_reason_that_is_not_one_line_is_refused(shown, reason):
    assert shown.client.post("/ops/intake/pause", data={"reason": reason}).status_code == 422
    assert shown.run(shown.engine.intake.state()) is None


def test_the_room_on_the_disk_is_shown_where_it_is_checked(shown, monkeypatch):
    assert "Not checked" in shown.look("/intake").text("//*[@class='facts']")

    async def almost_full():
        return IntakeState(None, 2**20, 2**30)

    monkeypatch.setattr(shown.serving.state.intake, "state", almost_full)
    page = shown.look("/intake")
    assert state_of(page) == "Closed for files"
    assert page.texts("//*[@class='facts']//dd") == ["1 MB", "1 GB"]


def test_a_reader_sees_the_intake_and_cannot_pause_it(shown):
    reader = shown.serving.browser(accept="text/html", authorization=f"Bearer {READER}")
    page = reader.get("/ops/intake")
    assert (page.status_code, '<form class="panel pause-form"' in page.text) == (200, False)
    for move in ("pause", "resume"):
        answer = reader.post(f"/ops/intake/{move}", data={"reason": "no"})
        assert answer.status_code == 403
    assert shown.run(shown.engine.intake.state()) is None
