"""Lines about failures: the same words everywhere, with the job's fields on the record."""

import logging

import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.failure_log import log_dead_letter, log_retry
from holdfast.jobs.model import DeadLetterReason, JobError
from holdfast.jobs.store_port import FailedJob

LOG = logging.getLogger("holdfast.tests")
JOB = FailedJob("j7", "shop.charge", 2, 3, "ann")
ERROR = JobError(ErrorCode.GW_5XX, "HTTP 502")


def test_a_failed_attempt_names_job_kind_attempt_error_and_next_try(caplog):
    log_retry(LOG, JOB, ERROR, 1_800_000_000.9)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "job j7 (shop.charge) failed attempt 2 of 3: GW_5XX: HTTP 502; "
        "next try at 2027-01-15T08:00:00Z"
    )
    fields = ("j7", "shop.charge", 2, "GW_5XX", "ann")
    assert (record.job_id, record.kind, record.attempt, record.code, record.owner) == fields


@pytest.mark.parametrize("never", [1e15, 1e300])
def test_a_time_that_no_calendar_has_is_logged_too(caplog, never):
    log_retry(LOG, JOB, ERROR, never)
    assert "s after the epoch" in caplog.text


def test_a_dead_letter_is_an_error_with_its_traceback(caplog):
    log_dead_letter(LOG, JOB, ERROR, DeadLetterReason.PERMANENT, traceback="Traceback: here")
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage() == (
        "job j7 (shop.charge) is a dead letter after attempt 2 of 3 (permanent): GW_5XX: HTTP 502"
    )
    assert caplog.text.endswith("HTTP 502\nTraceback: here\n")
    assert record.exc_info is None
    assert record.filename == "test_failure_log.py"


def test_the_exception_is_for_handlers_and_the_text_for_formatters(caplog):
    error = ValueError("a secret that the text leaves out")
    reason = DeadLetterReason.PERMANENT
    log_dead_letter(LOG, JOB, ERROR, reason, traceback="ValueError: ***", exception=error)
    (record,) = caplog.records
    assert record.exc_info == (ValueError, error, None)
    assert "secret" not in caplog.text


def test_a_job_of_which_only_the_id_is_known(caplog):
    log_dead_letter(LOG, FailedJob("j7"), ERROR, DeadLetterReason.LEASE_LOST)
    (record,) = caplog.records
    assert record.getMessage() == "job j7 is a dead letter (lease_lost): GW_5XX: HTTP 502"
    assert record.job_id == "j7"
    assert not hasattr(record, "attempt")


def test_nothing_is_made_for_a_logger_that_is_off(caplog, monkeypatch):
    monkeypatch.setattr(LOG, "disabled", True)
    log_dead_letter(LOG, JOB, ERROR, None)
    assert caplog.records == []
