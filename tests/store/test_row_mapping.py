"""Rows become values; the conformance suite tests how they are read."""

from dataclasses import fields

import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.held import HeldBy
from holdfast.jobs.history import Attempt
from holdfast.jobs.model import (
    AttemptOutcome,
    DeadLetterReason,
    EventName,
    Job,
    JobError,
    JobStatus,
    LastError,
)
from holdfast.jobs.views import DeadLetterGroup, JobFilter
from holdfast.store import cursors
from holdfast.store.row_mapping import (
    attempt_from,
    dead_letters_from,
    error_from,
    event_from,
    filter_parameters,
    groups_from,
    job_from,
    page_from,
)

FIRST = dict.fromkeys(field.name for field in fields(Job)[:26])
"""What stands in a row between the seq and the error."""


def job_row(
    seq, status="queued", *, code=None, dead_letter=None, last_error=None, has_twin=None, **columns
):
    fields_of = {**FIRST, "id": f"j{seq}", "status": status, "cancel_requested": 0, **columns}
    message = None if code is None else "it broke"
    return (seq, *fields_of.values(), code, message, dead_letter, "queue", last_error, has_twin)


def test_a_job_has_its_columns_as_the_model_has_them():
    row = job_row(7, "failed", code="GW_5XX", dead_letter="permanent", cancel_requested=1)
    job = job_from(row, '{"a":1}')
    assert (job.id, job.status, job.cancel_requested) == ("j7", JobStatus.FAILED, True)
    assert job.error == JobError(ErrorCode.GW_5XX, "it broke")
    assert job.dead_letter is DeadLetterReason.PERMANENT
    assert (job.held, job.held_by, job.arguments) == (True, HeldBy.QUEUE, '{"a":1}')
    assert type(job.cancel_requested) is type(job.held) is bool
    assert (job.has_twin, job.can_retry) == (False, True)
    twin = job_from(job_row(8, "failed", code="GW_5XX", has_twin=1))
    assert (twin.has_twin, twin.can_retry) == (True, False)


def test_the_last_error_is_that_of_a_failed_job_or_of_a_waiting_ones_last_attempt():
    failed = job_from(job_row(7, "failed", code="GW_5XX", attempt_count=3))
    assert failed.last_error == LastError(ErrorCode.GW_5XX, "it broke", 3)
    waiting = job_from(job_row(7, last_error='["CARD_DECLINED", "no", 2]'))
    assert (waiting.error, waiting.last_error) == (None, LastError("CARD_DECLINED", "no", 2))
    assert job_from(job_row(7)).last_error is None


@pytest.mark.parametrize(("found", "more"), [(0, False), (2, False), (3, True)])
def test_a_page_goes_on_where_there_is_a_row_more_than_asked_for(found, more):
    page = page_from([job_row(90 - n) for n in range(found)], 2)
    assert [job.id for job in page.jobs] == ["j90", "j89"][:found]
    assert page.next_cursor == (cursors.encode(89) if more else None)


@pytest.mark.parametrize("more", [False, True])
def test_dead_letters_go_on_after_the_last_failure_shown(more):
    rows = [
        job_row(n, "failed", code="TIMEOUT", dead_letter="deadline", finished_at=9.5 - n,
                attempt_count=3)
        for n in range(3 if more else 2)
    ]  # fmt: skip
    letters, cursor = dead_letters_from(rows, 2)
    assert [(letter.job.id, letter.attempts_made, letter.reason) for letter in letters] == [
        ("j0", 3, DeadLetterReason.DEADLINE),
        ("j1", 3, DeadLetterReason.DEADLINE),
    ]
    assert cursor == (cursors.encode(8.5, 1) if more else None)


def test_a_group_has_a_code():
    assert groups_from([("work", "TIMEOUT", "late", 3, 9.5, "j1")]) == (
        DeadLetterGroup("work", ErrorCode.TIMEOUT, "late", 3, 9.5, "j1"),
    )


def test_an_attempt_under_way_has_no_outcome():
    running = attempt_from("j1", (2, 5, "w", 1.0, None, None, None, None, None, None, None, None))
    assert running == Attempt("j1", 2, 5, "w", 1.0)
    ended = attempt_from("j1", (2, 5, "w", 1.0, 2.0, 0.5, "retry", "GW_5XX", "no", 3.0, "{}", "at"))
    assert (ended.outcome, ended.error) == (
        AttemptOutcome.RETRY,
        JobError(ErrorCode.GW_5XX, "no"),
    )
    assert (ended.finished_at, ended.duration, ended.retry_after) == (2.0, 0.5, 3.0)
    assert (ended.meta, ended.traceback) == ("{}", "at")


def test_an_event_has_milliseconds():
    event = event_from((1, "j1", "work", None, "complete", 2.0, 1, 0.25, None, None))
    assert (event.name, event.duration_ms, event.error_code) == (EventName.COMPLETE, 250.0, None)
    event = event_from((1, "j1", "work", None, "failed", 2.0, 1, None, "TIMEOUT", None))
    assert (event.duration_ms, event.error_code) == (None, ErrorCode.TIMEOUT)


def test_an_error_without_a_message_is_an_error():
    assert error_from(None, None) is None
    assert error_from("TIMEOUT", None) == JobError(ErrorCode.TIMEOUT, "")


def test_every_field_of_a_filter_is_compared_with():
    where = JobFilter(error_code=ErrorCode.TIMEOUT, owner="me", kinds=("a", "b"))
    given = filter_parameters(where, "+".join)
    assert set(given) == {*(field.name for field in fields(JobFilter)), "floor"}
    assert (given["error_code"], type(given["error_code"])) == ("TIMEOUT", str)
    assert given["kinds"] == "a+b"
    unset = filter_parameters(JobFilter(), "+".join)
    assert set(unset.values()) == {None, 0}
