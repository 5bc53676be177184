"""Statuses, legal moves and the properties of a job."""

from dataclasses import FrozenInstanceError, fields, replace
from itertools import pairwise

import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.model import (
    FINISHED,
    INITIAL_STATUSES,
    MOVES,
    Claim,
    Failed,
    Job,
    JobError,
    JobStatus,
    Lease,
    NewJob,
    Released,
    may_move,
)

JOB = Job(
    id="a",
    kind="work",
    queue="default",
    downstream=None,
    status=JobStatus.QUEUED,
    priority=0,
    attempt_count=0,
    max_attempts=3,
    manual_retry_count=0,
    token=0,
    created_at=1.0,
    queued_at=1.0,
    ready_at=1.0,
    started_at=None,
    last_attempt_at=None,
    finished_at=None,
    deadline_at=None,
    dedup_key=None,
    owner=None,
    meta=None,
    progress=None,
    progress_note=None,
    worker_id=None,
    lease_expires_at=None,
    cancel_requested=False,
    result=None,
    error=None,
    dead_letter=None,
    held_by=None,
)


def test_the_contracts_moves_are_all_legal():
    path = [JobStatus.UPLOADED, JobStatus.QUEUED, JobStatus.PROCESSING, JobStatus.COMPLETE]
    assert all(may_move(a, b) for a, b in pairwise(path))
    assert may_move(JobStatus.PROCESSING, JobStatus.FAILED)
    assert may_move(JobStatus.FAILED, JobStatus.QUEUED)
    assert may_move(JobStatus.PROCESSING, JobStatus.QUEUED)


def test_any_unfinished_job_may_be_cancelled_and_no_other():
    cancellable = {status for status in JobStatus if may_move(status, JobStatus.CANCELLED)}
    assert cancellable == set(JobStatus) - FINISHED


def test_complete_and_cancelled_are_final():
    for status in (JobStatus.COMPLETE, JobStatus.CANCELLED):
        assert not any(may_move(status, target) for target in JobStatus)


def test_a_failed_job_goes_back_to_the_queue_only():
    assert [t for t in JobStatus if may_move(JobStatus.FAILED, t)] == [JobStatus.QUEUED]


def test_an_unchanged_status_is_not_a_move():
    assert not any(may_move(status, status) for status in JobStatus)


def test_only_a_claim_leads_to_processing():
    assert [o for o in JobStatus if may_move(o, JobStatus.PROCESSING)] == [JobStatus.QUEUED]


def test_every_status_can_be_reached_and_every_move_has_a_reason():
    reached = INITIAL_STATUSES | {target for _, target in MOVES}
    assert reached == set(JobStatus)
    assert all(reason for reason in MOVES.values())


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        MOVES[JobStatus.COMPLETE, JobStatus.QUEUED] = "no"  # type: ignore[index]


def test_finished_statuses_change_only_by_a_manual_retry():
    assert {status for status in JobStatus if status.finished} == {
        JobStatus.COMPLETE,
        JobStatus.FAILED,
        JobStatus.CANCELLED,
    }


def test_completed_at_and_failed_at_depend_on_the_status():
    done = replace(JOB, status=JobStatus.COMPLETE, finished_at=9.0)
    assert (done.completed_at, done.failed_at) == (9.0, None)
    error = JobError(ErrorCode.UNKNOWN, "no")
    failed = replace(JOB, status=JobStatus.FAILED, finished_at=9.0, error=error)
    assert (failed.completed_at, failed.failed_at) == (None, 9.0)


def test_retry_after_is_for_jobs_that_wait_between_two_attempts():
    assert JOB.retry_after is None
    waiting = replace(JOB, attempt_count=1, last_attempt_at=40.0, ready_at=50.0)
    assert waiting.retry_after == 50.0
    assert replace(waiting, status=JobStatus.PROCESSING).retry_after is None
    # An uncounted attempt still waits for its retry; a released one keeps its earlier ready_at.
    assert replace(waiting, attempt_count=0).retry_after == 50.0
    assert replace(waiting, last_attempt_at=60.0).retry_after is None


def test_a_dead_letter_is_one_with_a_reason():
    assert not JOB.is_dead_letter


def test_values_are_frozen_and_have_no_dict():
    for value in (JOB, Failed(JobError(ErrorCode.UNKNOWN, "no")), Released()):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(value, fields(value)[0].name, "x")
        assert not hasattr(value, "__dict__")


def test_a_claim_knows_its_job():
    claim = Claim(
        Lease("a", 1, "w", 2.0),
        "work",
        "default",
        None,
        "null",
        1,
        3,
        None,
        0.0,
        1.0,
        None,
        None,
        Admission.CALL,
        None,
    )
    assert claim.job_id == "a"


@pytest.mark.parametrize(
    "fields, word",
    [
        ({"id": ""}, "must not be empty"),
        ({"kind": ""}, "must not be empty"),
        ({"queue": ""}, "must not be empty"),
        ({"downstream": ""}, "must not be empty"),
        ({"status": JobStatus.COMPLETE}, "created complete"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"priority": 32768}, "priority"),
        ({"priority": -32769}, "priority"),
    ],
)
def test_a_job_that_no_store_accepts_is_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        NewJob(**{"id": "a", "kind": "work", **fields})


def test_the_largest_and_smallest_values_are_accepted():
    job = NewJob("a", "work", priority=-32768, max_attempts=1, status=JobStatus.UPLOADED)
    assert (job.priority, job.downstream) == (-32768, None)
