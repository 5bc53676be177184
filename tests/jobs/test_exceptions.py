"""Exceptions of an engine: their codes and messages."""

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


def test_an_unknown_kind_is_reported_with_the_declared_ones():
    error = UnknownKind("a.x", ["a.c", "a.b"])
    assert "declares 'a.x' (declared: a.b, a.c); pass its app in apps=" in str(error)
    assert "(declared: none)" in str(UnknownKind("a.x", []))


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
def test_each_exception_has_its_code(error, code):
    assert error.code is code


def test_a_failed_job_has_the_code_and_message_of_its_error():
    error = JobFailed(job(JobStatus.FAILED, JobError(ErrorCode.GW_5XX, "it broke")))
    assert error.code is ErrorCode.GW_5XX
    assert str(error) == "job j1 is failed: GW_5XX: it broke"


def test_a_cancelled_job_has_the_code_cancelled():
    error = JobFailed(job(JobStatus.CANCELLED))
    assert error.code is ErrorCode.CANCELLED
    assert str(error).startswith("job j1 is cancelled: CANCELLED: ")


def test_a_wait_timeout_has_the_job():
    error = WaitTimeout(job(JobStatus.PROCESSING), 2.5)
    assert isinstance(error, TimeoutError)
    assert str(error) == "job j1 is still processing after 2.5 s of waiting"
    assert error.job.id == "j1"
