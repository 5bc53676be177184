"""The figures of the overview."""

from dataclasses import replace

from holdfast.http.ops.overview_pages import (
    attempts_chart,
    newest_outcomes,
    success_chart,
    trips_chart,
)
from holdfast.jobs.client.overview import Outcomes


def test_many_attempts_are_counted_together():
    chart = attempts_chart([(6, 1), (1, 90), (5, 4), (2, 3)])
    assert [(bar.label, bar.value) for bar in chart.bars] == [
        ("1 attempt", "90"), ("2 attempts", "3"), ("5 or more", "5"),
    ]  # fmt: skip
    assert attempts_chart([]) is None
    assert success_chart(Outcomes()) is None


def test_the_newest_hour_of_trips_is_the_last_column():
    chart = trips_chart((0, 2, 1))
    assert [(each.label, each.height) for each in chart.columns] == [
        ("2 h ago", 0.0), ("1 h ago", 64.0), ("this hour", 32.0),
    ]  # fmt: skip


def test_the_last_day_counts_where_jobs_have_finished_in_it(shown):
    overview = shown.run(shown.engine.overview())
    assert newest_outcomes(overview) == (overview.last_day, "in the last day")
    new = replace(overview, last_day=None)
    assert newest_outcomes(new) == (overview.total, "since the store was created")


def test_the_overview_shows_what_needs_a_person(shown):
    page = shown.look("/")
    assert page.texts("//*[@class='tile-number']") == ["2", "0", "3", "0"]
    assert page.text("//p[@role='alert']") == "smtp is open."
    assert page.texts("//*[name()='svg' and @role='img']/*[name()='title']") == [
        "Share of finished jobs that succeeded at the first try and in the end, with a target of "
        "99.5 %",
        "Finished jobs by the number of their attempts",
        "Time that jobs took, without and with their retries",
        "Ready jobs by queue",
        "How often breakers opened in each of the last 24 hours",
    ]
    assert "40 %" in page.text("//table[contains(., 'In the end')]")
    assert "Below the target of 99.5 %." in page.answer.text


def test_an_empty_store_has_an_overview_too(serving):
    client = serving.admin()
    text = client.get("/ops/").text
    assert "No job has finished yet." in text
    assert "No job was enqueued yet." in text
