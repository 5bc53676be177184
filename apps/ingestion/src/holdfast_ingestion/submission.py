"""What a caller hands in, checked: an address, a text or a file, and what belongs to it."""

import codecs
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast import ErrorCode
from holdfast.fetch import Fetcher
from holdfast.http import ApiError
from holdfast_ingestion.error_codes import EMPTY_CONTENT, UNSUPPORTED_TYPE
from holdfast_ingestion.extraction.plain_text import markdown_title, one_line, tidy
from holdfast_ingestion.formats import Format, fits, format_of_filename, format_of_media_type
from holdfast_ingestion.job_values import NO_HOST, host_key
from holdfast_ingestion.metadata import checked_metadata

URL_TYPE = "url"
_LONGEST_ORG_ID = 200
_TEXTS = (Format.TEXT, Format.MARKDOWN, Format.HTML)
"""What `content` can be; the others come as files."""


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a caller says about a document."""

    org_id: str = ""
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Submission:
    """A document to take in: `url`, or `text` that is ready, or a `file` to extract text from."""

    type: str
    source_key: str
    about: Belongings
    url: str | None = None
    host: str = NO_HOST
    text: str | None = None
    file: bytes | None = None
    filename: str | None = None

    @property
    def name(self) -> str:
        """What the document is called until its own title is known."""
        return self.about.title or self.url or self.filename or f"A {self.type} document"


def belongings(org_id: str | None, title: str | None, metadata: object) -> Belongings:
    """Return what a caller says about a document, checked.

    Raises:
        ApiError: it cannot be stored.
    """
    org_id = (org_id or "").strip()
    if len(org_id) > _LONGEST_ORG_ID or not org_id.isprintable():
        raise _invalid(f"orgId must be printable, with at most {_LONGEST_ORG_ID} characters.")
    return Belongings(org_id, one_line(title), checked_metadata(metadata))


def by_url(url: str, about: Belongings, fetcher: Fetcher) -> Submission:
    """Return the submission of an address.

    Raises:
        PermanentFetchError: it can never be fetched.
    """
    checked = fetcher.check(url)
    address = str(checked)
    key = _key(about, URL_TYPE, address)
    return Submission(URL_TYPE, key, about, url=address, host=host_key(checked.authority))


def by_content(content: str, type_name: str, about: Belongings, most_bytes: int) -> Submission:
    """Return the submission of a text, a Markdown text or an HTML page.

    Raises:
        ApiError: it is empty, too large, or of a type that is not text.
    """
    chosen = _format(type_name, "content", _TEXTS)
    if chosen in {Format.PDF, Format.DOCX}:
        line = f"Send {chosen.upper()} as a file: multipart/form-data with a field 'file'."
        raise ApiError(UNSUPPORTED_TYPE, line, status=415)
    data = content.encode("utf-8", "replace")
    _check_size(len(data), most_bytes)
    if not content.strip():
        raise _empty()
    key = _key(about, chosen, hashlib.sha256(data).hexdigest())
    if not chosen.is_plain:
        return Submission(chosen, key, about, file=_marked(data))
    text = tidy(content)
    if not text:
        raise _empty()
    title = about.title or (markdown_title(text) if chosen is Format.MARKDOWN else None)
    about = Belongings(about.org_id, title, about.metadata)
    return Submission(chosen, key, about, text=text)


def _marked(data: bytes) -> bytes:
    """Return UTF-8 with its byte order mark, which counts for more than what a page declares."""
    return codecs.BOM_UTF8 + data.removeprefix(codecs.BOM_UTF8)


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file of a form, and what the browser says of it."""

    name: str
    media_type: str
    data: bytes


def by_file(
    file: UploadedFile, type_name: str | None, about: Belongings, most_bytes: int
) -> Submission:
    """Return the submission of an uploaded file.

    Its format is `type_name`, else what its name says, else its content type.

    Raises:
        ApiError: it is empty, too large, or of no format that can be read.
    """
    _check_size(len(file.data), most_bytes)
    if not file.data.strip():
        raise _empty()
    chosen = (
        _format(type_name, "a file", tuple(Format))
        if type_name
        else format_of_filename(file.name) or format_of_media_type(file.media_type)
    )
    if chosen is None:
        raise _unsupported("Only PDF, DOCX, HTML, Markdown and text files can be read.")
    if not fits(file.data, chosen):
        raise _unsupported(f"This is not a {chosen.upper()} file.")
    key = _key(about, chosen, hashlib.sha256(file.data).hexdigest())
    return Submission(chosen, key, about, file=file.data, filename=one_line(file.name))


def _format(name: str, given: str, possible: Sequence[Format]) -> Format:
    try:
        return Format(name)
    except ValueError:
        listed = f"{', '.join(possible[:-1])} or {possible[-1]}"
        line = f"The type of {given} cannot be {name[:40]!r}; choose {listed}."
        raise _unsupported(line) from None


def _check_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise too_large(most_bytes)


def too_large(most_bytes: int) -> ApiError:
    """Return the refusal of what is larger than allowed."""
    most = most_bytes / (1024 * 1024)
    return ApiError(ErrorCode.TOO_LARGE, f"This is larger than {most:g} MB, the limit.")


def _key(about: Belongings, kind: str, identity: str) -> str:
    parts = json.dumps([about.org_id, str(kind), identity])
    return hashlib.sha256(parts.encode()).hexdigest()


def _empty() -> ApiError:
    return ApiError(EMPTY_CONTENT, "The content is empty.", status=400)


def _unsupported(line: str) -> ApiError:
    return ApiError(UNSUPPORTED_TYPE, line, status=415)


def _invalid(line: str) -> ApiError:
    return ApiError(ErrorCode.VALIDATION_ERROR, line)
