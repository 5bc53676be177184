"""The child's side: read one file after another, in a confined process."""

import io
import json
from typing import Any

import docx

from holdfast.children import RequestServer, request_server
from holdfast.errors import ErrorCode
from holdfast_conversion.pdf_text import warm_up_pdf
from holdfast_ingestion.extraction.plain_text import too_long_line
from holdfast_ingestion.extraction.readers import Unreadable, read
from holdfast_ingestion.formats import Format

_NO_MEMORY = json.dumps({"code": ErrorCode.MEMORY_ERROR})
"""Made beforehand: when it is needed there is no memory to make it."""
_PAGE = b"""<!doctype html><html><head><title>T</title></head><body><article><h1>T</h1>
<p>Some words that are read before the first stranger's page, so that all is loaded by then.</p>
<ul><li>one</li></ul><table><tr><td>1</td></tr></table></article></body></html>"""


def load(options: dict[str, Any]) -> RequestServer:
    """Load what the readers need, and return what reads files for the worker."""
    most = options["most_characters"]
    _warm_up()
    return request_server(lambda request, files: _answer(request, files, most))


def _warm_up() -> None:
    """Import and open all that the readers load when they first need it: no file may be then."""
    read(_PAGE, Format.HTML)
    read(_PAGE.replace(b"Some words", b"<p>" * 50), Format.HTML)
    read(b"<p>x</p>", Format.HTML)
    sample = docx.Document()
    sample.add_paragraph("words")
    sample.add_table(1, 1)
    file = io.BytesIO()
    sample.save(file)
    read(file.getvalue(), Format.DOCX)
    warm_up_pdf()


def _answer(request: str, files: list[int], most: int) -> str:
    try:
        with open(files[0], "rb", closefd=False) as file:
            data = file.read()
        found = read(data, Format(request))
        if len(found.text) > most:
            return _refused(ErrorCode.TOO_LARGE, too_long_line(most))
        return json.dumps({"code": None, "title": found.title, "text": found.text})
    except Unreadable as refusal:
        return _refused(refusal.code, str(refusal))
    except MemoryError:
        return _NO_MEMORY
    except RecursionError:
        return _refused(ErrorCode.PARSE_ERROR, "This document is nested too deeply.")
    except Exception as error:
        # A bug of ours or of a library met this file: refuse the file, and let the log name it.
        return _refused(ErrorCode.PARSE_ERROR, "", f"{type(error).__name__}: {error}"[:200])


def _refused(code: str, message: str, detail: str = "") -> str:
    return json.dumps({"code": code, "message": message, "detail": detail})
