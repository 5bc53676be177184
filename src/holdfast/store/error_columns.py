"""The errors of jobs as columns: code, message, and the group of similar messages."""

from holdfast.jobs.model import JobError
from holdfast.jobs.views import normalise_error
from holdfast.store.text import clean


def error_columns(error: JobError) -> tuple[str, str, str]:
    """Return code, message and group of `error`."""
    message = clean(error.message)
    return str(error.code), message, normalise_error(message)
