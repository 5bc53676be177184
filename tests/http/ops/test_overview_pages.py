"""The figures of the overview."""

from holdfast.http.ops.overview_pages import outcome_figures
from holdfast.jobs.model import JobStatus
from holdfast.jobs.views import OutcomeCounts


def test_figures_count_finished_jobs_and_their_attempts():
    figures = outcome_figures(
        [
            OutcomeCounts("a", JobStatus.COMPLETE, 1, 90),
            OutcomeCounts("a", JobStatus.COMPLETE, 3, 5),
            OutcomeCounts("b", JobStatus.FAILED, 6, 5),
            OutcomeCounts("b", JobStatus.CANCELLED, 1, 50),
        ]
    )
    assert (figures.finished, figures.first_try, figures.in_the_end) == (100, 0.9, 0.95)
    assert figures.overhead == (5 * 2 + 5 * 5) / 100
    assert figures.attempts == {"1 attempt": 90, "3 attempts": 5, "5 or more": 5}
    assert outcome_figures([]).shares == {}


def test_the_overview_shows_what_needs_a_person(shown):
    page = shown.look("/")
    assert page.texts("//*[@class='tile-number']") == ["2", "0", "3", "0"]
    assert page.text("//p[@role='alert']") == "smtp is open."
    assert page.texts("//*[name()='svg' and @role='img']/*[name()='title']") == [
        "Share of finished jobs that succeeded at the first try and in the end, with a target of "
        "99.5 %",
        "Finished jobs by the number of their attempts",
        "Ready jobs by queue",
    ]
    assert "40 %" in page.text("//table[contains(., 'In the end')]")
    assert "Below the target of 99.5 %." in page.answer.text


def test_an_empty_store_has_an_overview_too(serving):
    client = serving.admin()
    text = client.get("/ops/").text
    assert "No job has finished yet." in text
    assert "No job was enqueued yet." in text
