"""A job as a row."""

from dataclasses import replace

import pytest

from holdfast.errors import ErrorCode
from holdfast.http.pages.job_rows import PAUSED_LINE, held_line, row_of, without_actions
from holdfast.http.plugins import FactFormat, JobFact, JobFacts
from holdfast.http.rendered import Look
from holdfast.jobs.held import HeldBy
from holdfast.jobs.model import DeadLetterReason, Job, JobError, JobStatus, LastError

NOW = 1_700_000_000.0
JOB = Job(
    id="j", kind="demo.grind", queue="default", downstream="mill", status=JobStatus.QUEUED,
    priority=0, attempt_count=0, max_attempts=3, manual_retry_count=0, token=0, created_at=NOW,
    queued_at=NOW, ready_at=NOW, started_at=None, last_attempt_at=None, finished_at=None,
    deadline_at=None, dedup_key=None, owner="o", meta=None, progress=None, progress_note=None,
    worker_id=None, lease_expires_at=None, cancel_requested=False, result=None, error=None,
    dead_letter=None, held_by=None,
)  # fmt: skip
WORDS = {JobStatus.PROCESSING: "Converting", JobStatus.COMPLETE: "Ready"}


BROKE = LastError(ErrorCode.GW_5XX, "It broke.", 1)


def row(facts=None, paused=False, **changes):
    job = replace(JOB, **changes)
    return row_of(job, facts or JobFacts(), NOW, words=WORDS, paused=paused)


@pytest.mark.parametrize(
    "changes, look, label",
    [
        ({}, Look.QUEUED, "Queued"),
        ({"status": JobStatus.UPLOADED}, Look.QUEUED, "Queued"),
        ({"status": JobStatus.PROCESSING}, Look.RUNNING, "Converting"),
        ({"status": JobStatus.PROCESSING, "cancel_requested": True}, Look.RUNNING, "Stopping"),
        ({"status": JobStatus.COMPLETE}, Look.DONE, "Ready"),
        ({"status": JobStatus.FAILED}, Look.FAILED, "Failed"),
        ({"status": JobStatus.CANCELLED}, Look.CANCELLED, "Cancelled"),
        ({"held_by": HeldBy.DOWNSTREAM}, Look.HELD, "Paused"),
        ({"held_by": HeldBy.QUEUE}, Look.HELD, "Paused"),
        ({"ready_at": NOW + 5}, Look.WAITING, "Scheduled"),
        ({"ready_at": NOW + 5, "attempt_count": 1}, Look.WAITING, "Waiting to retry"),
    ],
)
def test_each_state_has_an_icon_and_a_label(changes, look, label):
    assert (row(**changes).look, row(**changes).label) == (look, label)


def test_a_waiting_job_shows_its_attempt_its_error_and_the_time_of_the_next():
    waiting = row(attempt_count=2, ready_at=NOW + 10, last_error=BROKE)

    assert waiting.attempts == "Attempt 2 of 3"
    assert (waiting.until_words, waiting.until) == ("next retry in", NOW + 10)
    assert waiting.line == "It broke."
    assert waiting.can_expedite
    assert waiting.can_cancel


def test_retry_now_is_not_offered_where_it_could_not_be_done():
    assert not row(attempt_count=1, ready_at=NOW + 10, paused=True).can_expedite
    assert not row(ready_at=NOW + 10).can_expedite
    assert not row(attempt_count=1, ready_at=NOW).can_expedite


@pytest.mark.parametrize("tried", [{"attempt_count": 1}, {"last_attempt_at": NOW - 1}])
def test_a_job_that_waits_for_a_retry_is_held_while_its_downstream_is(tried):
    held = row(ready_at=NOW + 10, paused=True, **tried)

    assert (held.look, held.label, held.until) == (Look.HELD, "Paused", None)
    assert held.line == "Mill busy, paused. Will retry automatically."
    waiting = row(ready_at=NOW + 10, **tried)
    assert (waiting.label, waiting.until_words) == ("Waiting to retry", "next retry in")
    assert waiting.can_expedite


def test_a_chosen_run_time_is_shown_even_while_the_downstream_is_held():
    scheduled = row(ready_at=NOW + 10, paused=True)

    assert (scheduled.label, scheduled.until) == ("Scheduled", NOW + 10)
    assert row(paused=True).look is Look.HELD
    assert row(status=JobStatus.PROCESSING, attempt_count=1, paused=True).look is Look.RUNNING


def test_a_held_job_is_not_failed_and_shows_what_happens_next():
    held = row(held_by=HeldBy.DOWNSTREAM, attempt_count=1, last_error=BROKE)

    assert held.line == "Mill busy, paused. Will retry automatically."
    assert held.attempts == "Attempt 1 of 3"
    assert held.until is None
    assert row(held_by=HeldBy.KIND).line == PAUSED_LINE
    assert held_line("gateway") == "Gateway busy, paused. Will retry automatically."


def test_the_attempt_number_is_shown_for_retries_and_failures():
    assert row(status=JobStatus.PROCESSING, attempt_count=1).attempts == ""
    assert row(status=JobStatus.PROCESSING, attempt_count=2).attempts == "Attempt 2 of 3"
    assert row(status=JobStatus.COMPLETE, attempt_count=3).attempts == ""
    assert row(status=JobStatus.CANCELLED, attempt_count=1).attempts == ""
    assert row(status=JobStatus.FAILED, attempt_count=3).attempts == "Attempt 3 of 3"
    assert row().attempts == ""


def test_a_failed_job_shows_its_error():
    error = JobError(ErrorCode.GW_4XX, "No good.")

    assert row(status=JobStatus.FAILED, error=error).line == "No good."


def test_a_complete_job_shows_the_note_of_its_app():
    facts = JobFacts(note="It has been removed.")

    assert row(facts, status=JobStatus.COMPLETE).line == "It has been removed."
    assert row(facts, status=JobStatus.PROCESSING).line == ""
    assert row(status=JobStatus.COMPLETE).line == ""


def test_only_a_running_job_shows_progress_and_its_note():
    running = row(status=JobStatus.PROCESSING, progress=0.5, progress_note="page 3")

    assert (running.progress, running.line) == (0.5, "page 3")
    assert row(progress=0.5, progress_note="page 3").progress is None


def test_a_finished_or_stopping_job_cannot_be_cancelled():
    assert not row(status=JobStatus.COMPLETE).can_cancel
    assert not row(status=JobStatus.PROCESSING, cancel_requested=True).can_cancel
    assert row(status=JobStatus.PROCESSING).can_cancel


def test_a_job_without_a_title_is_called_by_its_kind():
    assert row().name == "demo.grind"
    assert row(JobFacts(title="a.pdf")).name == "a.pdf"


def test_a_row_for_an_operator_has_no_buttons():
    facts = JobFacts(can_download=True, can_retry=True)
    shown = without_actions(row(facts, attempt_count=1, ready_at=NOW + 10))
    offered = (shown.can_download, shown.can_retry, shown.can_expedite, shown.can_cancel)
    assert not any(offered)
    assert shown.label == "Waiting to retry"


def test_a_row_shows_the_facts_of_its_app_in_order():
    declared = (
        JobFact("pages", "Pages"),
        JobFact("bytes", "Size", FactFormat.BYTES),
        JobFact("owner", "Owner"),
        JobFact("secret", "Secret", in_rows=False),
    )
    facts = JobFacts(values={"bytes": 1536, "pages": 3, "owner": None, "secret": "x", "more": 1})

    shown = row_of(JOB, facts, NOW, words={}, declared=declared).facts

    assert [(fact.label, fact.text) for fact in shown] == [("Pages", "3"), ("Size", "1.5 kB")]


@pytest.mark.parametrize("reason", [DeadLetterReason.PERMANENT, DeadLetterReason.REFUSED])
def test_a_failure_with_attempts_left_says_that_it_is_not_retried(reason):
    failed = {"status": JobStatus.FAILED, "error": JobError("BAD", "It is bad.")}
    refused = row(**failed, dead_letter=reason, attempt_count=1)

    assert (refused.attempts, refused.line) == ("", "Not retried: It is bad.")


@pytest.mark.parametrize(
    "reason, count",
    [(DeadLetterReason.ATTEMPTS_EXHAUSTED, 2), (DeadLetterReason.PERMANENT, 3)],
)
def test_a_failure_after_retries_says_how_many_attempts_there_were(reason, count):
    failed = {"status": JobStatus.FAILED, "error": JobError("BAD", "It is bad.")}
    tried = row(**failed, dead_letter=reason, attempt_count=count)

    assert (tried.attempts, tried.line) == (f"Attempt {count} of 3", "It is bad.")


def test_a_row_has_its_result_its_duration_and_how_long_it_is_kept():
    facts = JobFacts(values={"resultBytes": 13_000}, can_download=True, expires_at=NOW + 90)
    declared = (JobFact("resultBytes", "Size", FactFormat.BYTES, of_result=True),)
    job = replace(JOB, status=JobStatus.COMPLETE, finished_at=NOW + 3)

    done = row_of(job, facts, NOW + 5, words=WORDS, declared=declared)

    assert [fact.text for fact in done.results] == ["12.7 kB"]
    assert (done.facts, done.took, done.expires_at) == ((), 3.0, NOW + 90)
    assert row(JobFacts(expires_at=NOW), status=JobStatus.COMPLETE).expires_at is None


def test_a_running_row_says_since_when():
    assert row(status=JobStatus.PROCESSING, last_attempt_at=NOW - 4).since == NOW - 4
    assert row(last_attempt_at=NOW - 4).since is None


def test_a_held_row_names_what_it_waits_for_and_its_own_last_error():
    held = row(paused=True, attempt_count=1, last_error=BROKE)

    assert (held.waits_for, held.last_error) == ("mill", "It broke.")
    assert (row(held_by=HeldBy.QUEUE).waits_for, row().last_error) == ("", "")
