"""A document as a row."""

from dataclasses import replace

import pytest

from holdfast import HeldBy
from holdfast.http import Look, RenderedRow
from holdfast_ingestion.document_state import Document, JobRecord, Stage
from holdfast_ingestion.pages.document_rows import document_row, host_of, name_of, origin_of

DOCUMENT = Document(
    id="a" * 32, org_id="", type="url", url="https://site.example:8443/a?b=c", filename=None,
    title=None, media_type=None, bytes=None, metadata={}, chunks=0, settled_status="queued",
    settled_attempts=0, settled_code=None, settled_error=None, settled_metadata={},
    created_at=100.0, checked_at=None, settled_at=None, refresh_code=None, refresh_error=None,
    refresh_failed_at=None, status=Stage.QUEUED, job=None,
)  # fmt: skip
SHOWN = RenderedRow(
    id=f"doc-{'a' * 32}", name="job", facts=(), created_at=1.0, look=Look.QUEUED, label="Queued",
    attempts="", until=None, until_words="", line="", progress=None, can_download=False,
    can_retry=True, can_expedite=False, can_cancel=True,
)  # fmt: skip


class HeldJob:
    def __init__(self, held_by=None):
        self.held_by = held_by


def shown(look, **changes):
    return replace(SHOWN, look=look, **changes)


@pytest.mark.parametrize("stage", [Stage.FETCHING, Stage.EXTRACTING, Stage.INDEXING])
def test_a_running_document_says_its_stage_and_its_progress(stage):
    running = shown(Look.RUNNING, label="Running", line=str(stage), progress=0.4)
    row = document_row(replace(DOCUMENT, status=stage), HeldJob(), running).row

    assert (row.label, row.line, row.progress) == (stage.capitalize(), "", 0.4)
    assert (row.can_retry, row.can_cancel) == (False, False)


def test_a_document_between_attempts_says_when_the_next_one_is_and_why():
    waiting = shown(
        Look.WAITING, label="Waiting to retry", attempts="Attempt 1 of 3", until=200.0,
        line="The site did not answer in time.", can_expedite=True,
    )  # fmt: skip
    row = document_row(DOCUMENT, HeldJob(), waiting).row

    assert (row.label, row.attempts, row.until) == ("Waiting to retry", "Attempt 1 of 3", 200.0)
    assert row.line == "The site did not answer in time."
    assert row.can_expedite


def test_a_document_of_a_paused_site_names_the_site():
    each = document_row(DOCUMENT, HeldJob(HeldBy.DOWNSTREAM), shown(Look.HELD, label="Paused"))

    assert each.paused_site == "site.example:8443"
    assert each.row.line.startswith("site.example:8443 does not answer and is paused.")


def test_what_an_operator_has_paused_is_not_blamed_on_the_site():
    held = shown(Look.HELD, label="Paused", line="Paused by an operator.")
    each = document_row(DOCUMENT, HeldJob(HeldBy.KIND), held)

    assert (each.paused_site, each.row.line) == ("", "Paused by an operator.")


def test_a_paused_upload_has_no_site():
    upload = replace(DOCUMENT, url=None, filename="a.pdf", type="pdf")
    each = document_row(upload, HeldJob(HeldBy.DOWNSTREAM), shown(Look.HELD))

    assert each.paused_site == ""
    assert "paused for the moment" in each.row.line


def test_a_done_document_can_be_refreshed_if_it_has_an_address():
    done = replace(DOCUMENT, status=Stage.DONE, chunks=3, settled_attempts=1)

    each = document_row(done)
    assert each.can_refresh
    assert [fact.text for fact in each.row.facts] == ["site.example:8443", "3 passages"]
    assert (each.row.look, each.row.label, each.row.attempts) == (Look.DONE, "Done", "")
    assert not document_row(replace(done, url=None)).can_refresh
    assert document_row(replace(done, chunks=1)).row.facts[1].text == "1 passage"


def test_a_done_document_says_why_its_last_refresh_failed():
    failed = replace(
        DOCUMENT, status=Stage.DONE, refresh_code="FETCH_5XX", refresh_error="It broke."
    )
    row = document_row(failed).row

    assert (row.label, row.line) == ("Done", "The last refresh failed: It broke.")


@pytest.mark.parametrize(("attempts", "words"), [(1, "After 1 attempt"), (3, "After 3 attempts")])
def test_a_failed_document_says_why_and_can_be_retried(attempts, words):
    record = JobRecord("failed", attempts, None, 1.0, None, "FETCH_5XX", "It broke.", 2.0)
    each = document_row(replace(DOCUMENT, status=Stage.FAILED, job=record))

    assert (each.row.label, each.row.attempts, each.row.line) == ("Failed", words, "It broke.")
    assert each.row.can_retry
    assert not each.can_refresh


def test_a_document_whose_job_just_ended_is_still_shown_as_running():
    row = document_row(replace(DOCUMENT, status=Stage.INDEXING)).row

    assert (row.look, row.label, row.can_retry) == (Look.RUNNING, "Indexing", False)


def test_a_name_is_the_best_that_is_known():
    assert name_of("T", "f.pdf", "https://a/b", "pdf") == "T"
    assert name_of(None, "f.pdf", "https://a/b", "pdf") == "f.pdf"
    assert name_of(None, None, "https://a/b", "url") == "https://a/b"
    assert name_of(None, None, None, "text") == "A text document"
    assert name_of(None, None, None) == "A document"


def test_the_origin_is_a_host_a_file_or_a_type():
    assert origin_of("https://a.example/b", None, "url") == "a.example"
    assert origin_of(None, "f.pdf", "pdf") == "f.pdf"
    assert origin_of(None, None, "text") == "text"
    assert host_of(None) == ""
