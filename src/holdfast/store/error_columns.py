"""The errors of jobs as columns: code, message, and the group of similar messages."""

from holdfast.errors import ERRORS, ErrorCode
from holdfast.jobs.model import JobError
from holdfast.jobs.views import normalise_error
from holdfast.store.text import clean

TIMED_OUT = JobError(ErrorCode.TIMEOUT, ERRORS[ErrorCode.TIMEOUT].message)
"""The error of a job whose deadline has passed."""
LEASE_LOST = JobError(ErrorCode.LEASE_LOST, ERRORS[ErrorCode.LEASE_LOST].message)
"""The error of a job whose lease has expired."""


def error_columns(error: JobError) -> tuple[str, str, str]:
    """Return code, message and group of `error`."""
    message = clean(error.message)
    return str(error.code), message, normalise_error(message)
