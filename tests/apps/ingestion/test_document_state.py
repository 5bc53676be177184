"""A document's state follows from its row and its job's record."""

import json

import pytest

from holdfast_ingestion.document_state import Document, Stage


def document(status, job=None, settled="queued", error=None, finished_at=None):
    """Return a document of a row; `job` is (status, attempts, ready_at, last_attempt_at, ...)."""
    record = (None,) * 8 if job is None else (*job, *(None,) * (8 - len(job)))
    row = (
        "id", "", "url", "http://site.example/", None, None, None, None,
        json.dumps({"team": "blue"}), 0, settled, 3, error and "FETCH_5XX", error,
        json.dumps({}), 1.0, None, finished_at, None, None, None, status, *record,
    )  # fmt: skip
    return Document.from_row(row)


@pytest.mark.parametrize(
    "found, state",
    [
        (document("queued", ("queued", 0, 5.0)), "waiting"),
        (document("queued", ("queued", 1, 7.0, 5.0)), "delayed"),
        (document("fetching", ("processing", 1)), "active"),
        (document("queued", ("processing", 1)), "active"),
        (document("done", settled="done"), "completed"),
        (document("failed", ("failed", 3)), "failed"),
        (document("failed", settled="failed", error="no"), "failed"),
    ],
)
def test_the_state_is_the_jobs_in_the_words_of_the_seed(found, state):
    assert found.state == state


def test_the_jobs_record_says_why_a_document_failed_as_long_as_it_is_there():
    job = ("failed", 2, None, None, None, "FETCH_4XX", "gone", 9.0)
    found = document("failed", job, settled="failed", error="an older reason", finished_at=4.0)

    assert found.failure == ("FETCH_4XX", "gone")
    assert found.processing_metadata == {"error": "gone", "code": "FETCH_4XX"}
    assert (found.attempts_made, found.finished_at) == (2, 9.0)


def test_after_that_the_row_does():
    found = document("failed", settled="failed", error="the reason", finished_at=4.0)

    assert found.failure == ("FETCH_5XX", "the reason")
    assert (found.attempts_made, found.finished_at) == (3, 4.0)


def test_a_cancelled_job_and_one_that_is_forgotten_have_a_reason_too():
    assert document("failed", ("cancelled", 0)).failure[0] == "CANCELLED"
    assert document("failed").failure[0] == "EXPIRED"


def test_a_document_that_has_not_failed_has_no_failure():
    found = document("indexing", ("processing", 2, None, None, 0.7))

    assert found.failure is None
    assert (found.progress, found.attempts_made, found.finished_at) == (0.7, 2, None)
    assert document("done", settled="done").progress == 1.0
    assert found.status is Stage.INDEXING
