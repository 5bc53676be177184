"""Which reason wins if several apply to a job."""

import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.model import Cancelled, Completed, Failed, JobError, Released, Retry
from holdfast.jobs.report_rules import rescue_delay, rescued_status, target_status

ERROR = JobError(ErrorCode.UNKNOWN, "x")
RETRY, UNCOUNTED, FAILED = Retry(1, ERROR), Retry(1, ERROR, counted=False), Failed(ERROR)


@pytest.mark.parametrize(
    "outcome, past_deadline, cancel_requested, attempts_left, expected",
    [
        (Cancelled(), True, False, True, "cancelled"),
        (Completed(), True, True, True, "failed"),
        (Completed(), False, True, False, "complete"),
        (FAILED, False, True, True, "failed"),
        (RETRY, False, True, False, "cancelled"),
        (RETRY, False, False, False, "failed"),
        (RETRY, False, False, True, "queued"),
        (UNCOUNTED, False, False, False, "queued"),
        (Released(), True, False, True, "failed"),
        (Released(), False, True, True, "cancelled"),
        (Released(), False, False, False, "queued"),
    ],
)
def test_the_first_reason_that_applies_decides(
    outcome, past_deadline, cancel_requested, attempts_left, expected
):
    found = target_status(
        outcome,
        past_deadline=past_deadline,
        cancel_requested=cancel_requested,
        attempts_left=attempts_left,
    )
    assert found == expected


@pytest.mark.parametrize(
    "cancel_requested, attempts_left, expected",
    [
        (False, True, "queued"),
        (False, False, "failed"),
        (True, True, "cancelled"),
        (True, False, "cancelled"),
    ],
)
def test_a_job_whose_worker_died_runs_again_unless_it_is_cancelled_or_has_no_attempt_left(
    cancel_requested, attempts_left, expected
):
    found = rescued_status(cancel_requested=cancel_requested, attempts_left=attempts_left)
    assert found == expected


@pytest.mark.parametrize(
    "attempts, place, seconds",
    [
        (1, 0, 0.0), (1, 7, 0.0), (2, 0, 0.0), (2, 1, 0.2), (5, 10, 2.0), (2, 49, 9.8),
        (2, 50, 0.0), (3, 499, 9.8),
    ],
)  # fmt: skip
def test_a_rescued_job_that_was_tried_twice_waits_for_the_older_ones(attempts, place, seconds):
    assert rescue_delay(attempts, place) == pytest.approx(seconds)
