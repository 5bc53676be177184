"""What an engine raises: codes of the one taxonomy, and words that say what to do."""

import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.exceptions import (
    InvalidState,
    JobFailed,
    NotReady,
    UnknownJob,
    UnknownKind,
    WaitTimeout,
)
from holdfast.jobs.model import Job, JobError, JobStatus

BLANK = dict.fromkeys(Job.__dataclass_fields__)


def job(status: JobStatus, error: JobError | None = None) -> Job:
    return Job(**{**BLANK, "id": "j1", "kind": "a.b", "status": status, "error": error})


def test_an_unknown_kind_is_told_with_those_that_are_known():
    error = UnknownKind("a.x", ["a.c", "a.b"])
    assert "declares 'a.x' (it knows: a.b, a.c); pass its app in apps=" in str(error)
    assert "(it knows: none)" in str(UnknownKind("a.x", []))


@pytest.mark.parametrize(
    "error, code",
    [
        (UnknownKind("a.x", []), ErrorCode.VALIDATION_ERROR),
        (UnknownJob("j1"), ErrorCode.FORBIDDEN),
        (InvalidState("no"), ErrorCode.INVALID_STATE),
        (NotReady(job(JobStatus.QUEUED)), ErrorCode.NOT_READY),
        (WaitTimeout(job(JobStatus.QUEUED), 5), ErrorCode.TIMEOUT),
    ],
)
def test_each_has_its_code(error, code):
    assert error.code is code


def test_a_failed_job_speaks_with_its_own_error():
    error = JobFailed(job(JobStatus.FAILED, JobError(ErrorCode.GW_5XX, "it broke")))
    assert error.code is ErrorCode.GW_5XX
    assert str(error) == "job j1 is failed: GW_5XX: it broke"


def test_a_cancelled_job_is_told_as_cancelled():
    error = JobFailed(job(JobStatus.CANCELLED))
    assert error.code is ErrorCode.CANCELLED
    assert str(error).startswith("job j1 is cancelled: CANCELLED: ")


def test_waiting_in_vain_is_a_timeout_that_shows_the_job():
    error = WaitTimeout(job(JobStatus.PROCESSING), 2.5)
    assert isinstance(error, TimeoutError)
    assert str(error) == "job j1 is still processing after 2.5 s of waiting"
    assert error.job.id == "j1"
