"""The names of the files that belong to a job, and the errors of a failing disk.

`uploads/<job>.pdf` is what was uploaded, `results/<job>.<token>.xml` what an attempt made of it.
"""

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast import ErrorCode, HoldfastError, Job, Permanent
from holdfast_conversion.error_codes import line_of

_FULL = (errno.ENOSPC, errno.EDQUOT)


class StorageError(HoldfastError):
    """A file could not be read or stored; worth one more attempt."""

    code = ErrorCode.IO_ERROR


@contextmanager
def storing() -> Iterator[None]:
    """Turn errors of the disk into `IO_ERROR`, which is tried once more unless the disk is full.

    Raises:
        StorageError: a file could not be read or stored.
        Permanent: the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise Permanent(ErrorCode.IO_ERROR, "There is no room left to store files.") from error
        raise StorageError(line_of(ErrorCode.IO_ERROR)) from error


def pdf_name(job_id: str) -> str:
    """Return the name of a job's upload."""
    return f"uploads/{job_id}.pdf"


def xml_name(job_id: str, token: int) -> str:
    """Return the name of the result of the attempt with `token`."""
    return f"results/{job_id}.{token}.xml"


def job_of(name: str) -> str:
    """Return the id of the job whose file it is."""
    return name.partition("/")[2].partition(".")[0]


def result_name(text: str | None) -> str | None:
    """Return the name of the XML that a job's completion has published, from its result."""
    name = _result(text).get("file")
    return name if isinstance(name, str) else None


def result_size(text: str | None) -> int | None:
    """Return the size of that XML in bytes, from the job's result."""
    size = _result(text).get("bytes")
    return size if isinstance(size, int) else None


def _result(text: str | None) -> dict[str, object]:
    result = json.loads(text) if text else None
    return result if isinstance(result, dict) else {}


def expires_at(job: Job, ttl: float) -> float | None:
    """Return when the files of a finished job may go, in epoch seconds."""
    return None if job.finished_at is None else job.finished_at + ttl


def has_expired(job: Job, now: float, ttl: float) -> bool:
    """Say whether a finished job's files have been kept for `ttl` seconds, so that they may go.

    This alone decides, whether or not a cleanup has run; `now` is epoch seconds.
    """
    end = expires_at(job, ttl)
    return end is not None and now >= end
