"""Read an upload's form: write its file to disk, count and hash it, stop at the limits.

The form is parsed piece by piece; of the file there is never more in memory than one piece.
"""

import asyncio
import re
import unicodedata
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from holdfast import ErrorCode, HoldfastError, Permanent
from holdfast.files import Draft
from holdfast_conversion.error_codes import ALL_ERRORS, INVALID_MAPPING, NOT_PDF
from holdfast_conversion.file_names import StorageError
from holdfast_conversion.file_writer import LARGEST_BATCH, FileWriter, UploadMemory
from holdfast_conversion.gateway.formats import MAGIC, MAGIC_WITHIN, Mapping
from holdfast_conversion.gateway.stall_timeout import with_stall_timeout

DEFAULT_MAPPING = Mapping.LAYOUT
_LONGEST_FIELD = 200
_MOST_PARTS = 20
_FORM_BYTES = 256 * 1024
"""What a form may have beside its file: boundaries, headers and fields."""
_LONGEST_NAME = 200
_NO_NAME = "document.pdf"


@dataclass(slots=True)
class Form:
    """What is known of an upload so far."""

    filename: str = _NO_NAME
    mapping: str = DEFAULT_MAPPING
    bytes: int = 0
    sha256: str = ""
    has_file: bool = False


class UploadRefused(HoldfastError):
    """An upload is not taken in.

    Args:
        code: why.
        message: a line for people.
        status: the HTTP status; by default the code's.
        recorded: it is kept as a failed job, for its owner to see.
        headers: of the answer.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        status: int | None = None,
        recorded: bool,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message or ALL_ERRORS[code].message)
        self.code = code
        self.status = ALL_ERRORS[code].http_status if status is None else status
        self.recorded = recorded
        self.headers = dict(headers or {})


@dataclass(slots=True)
class UploadLimits:
    """How much an upload may bring and take; times are seconds."""

    most_bytes: int
    stall_seconds: float
    total_seconds: float
    declared: int | None = None
    """The Content-Length, if there is one."""
    memory: UploadMemory = field(default_factory=UploadMemory)

    @property
    def most_in_all(self) -> int:
        """Bytes of the whole form, its file with it."""
        return self.most_bytes + _FORM_BYTES


async def receive(
    body: AsyncIterator[bytes], content_type: str, draft: Draft, form: Form, limits: UploadLimits
) -> None:
    """Read the whole form; write its file to `draft` and what is known of it to `form`.

    Raises:
        UploadRefused: it cannot be taken in; the rest was not read.
        ClientDisconnect: the client is gone.
    """
    file, memory = FileWriter(draft), limits.memory
    reader, read = _Reader(file, form, limits), 0
    parser = _parser(content_type, reader)
    try:
        with memory.place():
            async with asyncio.timeout(limits.total_seconds):
                async for piece in with_stall_timeout(body, limits.stall_seconds):
                    read += len(piece)
                    if read > limits.most_in_all:
                        # The reader does not see what stands before and after the fields.
                        raise reader.too_large()
                    for start in range(0, len(piece), LARGEST_BATCH):
                        parser.write(piece[start : start + LARGEST_BATCH])
                        if file.waiting >= memory.batch_bytes:
                            await file.flush()
            parser.finalize()
            if not reader.ended:
                raise FormParserError("no final boundary")
            reader.judge()
            form.sha256 = await file.finish()
    except FormParserError:
        raise _malformed("The upload ended too soon, or is not a form.") from None
    except TimeoutError:
        line = "The upload took too long."
        raise UploadRefused(ErrorCode.TIMEOUT, line, status=408, recorded=False) from None
    except (StorageError, Permanent) as error:
        raise UploadRefused(ErrorCode.IO_ERROR, str(error), recorded=True) from error
    finally:
        await file.settle()


def _parser(content_type: str, reader: "_Reader") -> MultipartParser:
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise _malformed("Send the file as a form: multipart/form-data with a field 'file'.")
    callbacks: dict[str, Callable[..., Any]] = {
        "on_part_begin": reader.on_part_begin,
        "on_header_field": reader.on_header_field,
        "on_header_value": reader.on_header_value,
        "on_header_end": reader.on_header_end,
        "on_headers_finished": reader.on_headers_finished,
        "on_part_data": reader.on_part_data,
        "on_part_end": reader.on_part_end,
        "on_end": reader.on_end,
    }
    try:
        return MultipartParser(boundary, callbacks, max_header_size=64 * 1024)  # type: ignore[arg-type]  # the names are the contract
    except FormParserError:
        raise _malformed("The form's boundary is too long.") from None


def _malformed(line: str) -> UploadRefused:
    return UploadRefused(ErrorCode.VALIDATION_ERROR, line, status=400, recorded=False)


@dataclass(slots=True)
class _Part:
    """One field of the form, as far as it was read."""

    name: str = ""
    header: bytearray = field(default_factory=bytearray)
    value: bytearray = field(default_factory=bytearray)
    content: bytearray = field(default_factory=bytearray)
    is_file: bool = False


class _Reader:
    """Receive the parser's callbacks."""

    def __init__(self, file: FileWriter, form: Form, limits: UploadLimits) -> None:
        self._file = file
        self._form = form
        self._limits = limits
        self._part = _Part()
        self._parts = 0
        self._head = b""
        self.ended = False

    # -- callbacks of the parser ---------------------------------------------------------------

    def on_part_begin(self) -> None:
        self._part = _Part()
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _malformed("The form has too many fields.")

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._part.header += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._part.value += data[start:end]

    def on_header_end(self) -> None:
        part = self._part
        if part.header.lower() == b"content-disposition":
            _, options = parse_options_header(bytes(part.value))
            part.name = options.get(b"name", b"").decode("utf-8", "replace")
            if part.name == "file":
                part.is_file = True
                self._begin_file(options.get(b"filename"))
        part.header.clear()
        part.value.clear()

    def on_headers_finished(self) -> None:
        limits = self._limits
        is_too_long = limits.declared is not None and limits.declared > limits.most_in_all
        if self._part.is_file and is_too_long:
            raise self.too_large()

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        if not part.is_file:
            part.content += data[start:end]
            if len(part.content) > _LONGEST_FIELD:
                raise (
                    self._bad_mapping()
                    if part.name == "mapping"
                    else _malformed("A field of the form is too long.")
                )
            return
        form = self._form
        form.bytes += end - start
        if form.bytes > self._limits.most_bytes:
            raise self.too_large()
        if len(self._head) < MAGIC_WITHIN:
            self._head += data[start:end][: MAGIC_WITHIN - len(self._head)]
            if len(self._head) == MAGIC_WITHIN:
                self._check_magic()
        whole = start == 0 and end == len(data)
        self._file.add(data if whole else memoryview(data)[start:end])

    def on_part_end(self) -> None:
        part = self._part
        if part.name == "mapping" and not part.is_file:
            text = part.content.decode("utf-8", "replace").strip()
            try:
                self._form.mapping = Mapping(text or DEFAULT_MAPPING)
            except ValueError:
                self._form.mapping = readable(text, 50)
                raise self._bad_mapping() from None
        part.is_file = False

    def on_end(self) -> None:
        self.ended = True

    # -- the file ------------------------------------------------------------------------------

    def _begin_file(self, name: bytes | None) -> None:
        if self._form.has_file:
            raise _malformed("Send one file at a time.")
        self._form.has_file = True
        self._form.filename = clean_filename(name or b"")

    def judge(self) -> None:
        """Judge the whole, now that all of it is known."""
        if not self._form.has_file:
            raise _malformed("The form has no field 'file'.")
        if len(self._head) < MAGIC_WITHIN:
            self._check_magic()

    def _check_magic(self) -> None:
        if not self._head:
            raise UploadRefused(NOT_PDF, "The file is empty.", recorded=True)
        if MAGIC not in self._head:
            raise UploadRefused(NOT_PDF, recorded=True)

    def too_large(self) -> UploadRefused:
        """Return the refusal of what is larger than allowed."""
        line = too_large_line(self._limits.most_bytes)
        return UploadRefused(ErrorCode.TOO_LARGE, line, recorded=True)

    def _bad_mapping(self) -> UploadRefused:
        names = ", ".join(Mapping)
        line = f"There is no such mapping; choose one of {names}."
        return UploadRefused(INVALID_MAPPING, line, recorded=True)


def clean_filename(raw: bytes) -> str:
    """Return a file's name fit to be shown: no path, one line, at most 200 characters."""
    text = raw.decode("utf-8", "replace")
    # Browsers write these three as percent codes, and nothing else.
    for code, letter in (("%22", '"'), ("%0D", " "), ("%0A", " ")):
        text = text.replace(code, letter)
    text = re.split(r"[/\\]", text)[-1]
    text = readable(text, len(text)).strip(". ")
    if not text:
        return _NO_NAME
    if len(text) <= _LONGEST_NAME:
        return text
    stem, dot, ending = text.rpartition(".")
    if not stem or len(ending) > 10:
        return text[: _LONGEST_NAME - 1] + "…"
    return stem[: _LONGEST_NAME - len(ending) - 2] + "…" + dot + ending


def readable(text: str, longest: int) -> str:
    """Return `text` on one line, without controls and marks that turn its direction."""
    kept = "".join(
        " " if letter.isspace() else letter
        for letter in text
        if letter.isspace() or unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Co", "Cn"}
    )
    return " ".join(kept.split())[:longest]


def shown_size(size: int) -> str:
    """Return a number of bytes as people say it."""
    if size >= 1024 * 1024:
        return f"{size / (1024 * 1024):.3g} MB"
    return f"{size / 1024:.3g} kB" if size >= 1024 else f"{size} bytes"


def too_large_line(most_bytes: int) -> str:
    """Return the line for a file that is larger than `most_bytes`."""
    return f"File exceeds {shown_size(most_bytes)} limit."
