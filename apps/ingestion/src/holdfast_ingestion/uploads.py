"""The uploaded files of documents."""

from holdfast import ErrorCode, HoldfastError, Permanent
from holdfast.files import ArtifactStore


class StorageError(HoldfastError):
    """An uploaded file could not be read; the next attempt may succeed."""

    code = ErrorCode.IO_ERROR


def upload_name(document_id: str) -> str:
    """Return the name of a document's uploaded file."""
    return f"documents/{document_id}"


def read_upload(files: ArtifactStore, document_id: str) -> bytes:
    """Return the uploaded file of a document.

    Raises:
        Permanent: `EXPIRED`; it is gone.
        StorageError: it could not be read.
    """
    try:
        with files.open(upload_name(document_id)) as file:
            return file.read()
    except FileNotFoundError:
        line = "The uploaded file is no longer there; upload it again."
        raise Permanent(ErrorCode.EXPIRED, line) from None
    except OSError as error:
        raise StorageError("The uploaded file could not be read.") from error
