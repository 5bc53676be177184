"""Downstreams on their page."""

import pytest

from holdfast.http.ops.downstream_pages import downstream_views
from holdfast.resilience.breaker.transitions import CircuitState


def test_an_open_breaker_is_an_alert_with_its_figures(shown):
    page = shown.look("/downstreams")
    assert page.text("//p[@role='alert']") == "smtp is open."
    row = page.text("//tbody/tr")
    for words in ("smtp", "Open", "consecutive failures reach their limit", "GW_UNAVAILABLE"):
        assert words in row
    assert page.text("//td[@data-label='Trips']") == "11 this hour"
    assert page.text("//td[@data-label='Jobs']").startswith("1 held, 0 running")
    assert page.texts("//td[@class='acts']//button/text()/..") == [
        "Release smtp", "Hold smtp", "Reset smtp",
    ]  # fmt: skip


def test_a_circuit_open_for_more_than_five_minutes_is_said(shown):
    async def later():
        now, details = await shown.engine.store.ping(), await shown.engine.downstreams.details()
        return [downstream_views(details, now + after)[0].long_open for after in (200, 301)]

    assert shown.run(later()) == [False, True]


@pytest.mark.parametrize(
    ("move", "note", "state"),
    [("hold", "held", CircuitState.OPEN), ("release", "released", CircuitState.HALF_OPEN)],
)
def test_a_downstream_is_held_or_released(dashboard, move, note, state):
    assert dashboard.post(f"/downstreams/{move}", name="smtp") == f"/downstreams?note={note}"
    assert dashboard.run(dashboard.engine.downstreams.state("smtp")) is state
    row = dashboard.look("/downstreams").text("//tbody/tr").lower()
    assert row.count("held by hand") == (1 if move == "hold" else 0)
    assert "holds jobs while open" in row


def test_a_reset_is_asked_about_first(dashboard):
    question = dashboard.ask("/downstreams/reset", name="smtp")
    assert question.text("//h1") == "Reset smtp?"
    assert dashboard.run(dashboard.engine.downstreams.state("smtp")) is CircuitState.OPEN

    assert dashboard.post("/downstreams/reset", name="smtp", confirmed="1") == (
        "/downstreams?note=reset"
    )
    page = dashboard.look("/downstreams")
    assert not page.all("//p[@role='alert']")
    assert "Closed" in page.text("//tbody")


def test_an_unknown_downstream_is_not_found(shown):
    assert shown.client.post("/ops/downstreams/hold", data={"name": "x"}).status_code == 404


@pytest.mark.parametrize("move", ["hold", "release", "reset"])
def test_a_name_that_no_store_holds_is_refused(shown, move):
    data = {"name": "a\0b", "confirmed": "1"}
    path = f"/ops/downstreams/{move}"
    assert shown.client.post(path, data=data).status_code == 422
