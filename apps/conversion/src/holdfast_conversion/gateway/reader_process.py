"""The child's side: convert one file after another, in a confined process."""

import codecs
import io
import json
import mmap
import os
from dataclasses import asdict
from typing import Any

from holdfast.children import ChildLimits, RequestServer, request_server
from holdfast_conversion.gateway.formats import Caps, Mapping, PagesRead
from holdfast_conversion.gateway.reading.mappings import convert_into
from holdfast_conversion.gateway.rejections import Reason, Rejection

_NO_MEMORY = json.dumps({"reason": Reason.OUT_OF_MEMORY.name})
"""Made beforehand: when it is needed there is no memory to make it."""

_SAMPLE = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>
>>endobj
4 0 obj<</Length 57>>stream
BT /F 9 Tf 9 9 Td (na\xefve \x80 words) Tj 0 12 Td (more) Tj ET  \nendstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>endobj
6 0 obj<</Title<FEFF00E9>/CreationDate(D:20200101000000Z)>>endobj
trailer<</Root 1 0 R/Info 6 0 R>>
"""
"""A page of its own: what Python and PDFium load when first needed is loaded by it."""


def load(caps: dict[str, int]) -> RequestServer:
    """Load what reading a PDF needs, and return what converts files for the server."""
    bounds = Caps(**caps)
    warm_up()

    def answer(request: dict[str, Any], files: list[int]) -> str:
        ChildLimits(cpu_seconds=request["cpu_seconds"]).allow_cpu()
        return _answer(request, files, bounds)

    return request_server(answer)


def warm_up() -> None:
    """Let Python and PDFium load all that reading a PDF needs."""
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "latin-1", "ascii"):
        codecs.lookup(encoding)
    for mapping in Mapping:
        convert_into(_SAMPLE, mapping, io.BytesIO(), Caps())


def _answer(message: dict[str, Any], descriptors: list[int], caps: Caps) -> str:
    try:
        begun = _cpu_seconds()
        read = _convert(message, descriptors, caps)
        used = _cpu_seconds() - begun
        return json.dumps({"reason": None, "cpu_seconds": used, **asdict(read)})
    except Rejection as refusal:
        return _refused(refusal.reason, refusal.detail)
    except MemoryError:
        return _NO_MEMORY
    except OSError as error:
        return _refused(Reason.STORAGE, str(error.strerror))
    except Exception as error:
        # A bug of ours met this file: reject the file, and let the log name the error.
        return _refused(Reason.CRASHED, f"{type(error).__name__}: {error}")


def _refused(reason: Reason, detail: str) -> str:
    return json.dumps({"reason": reason.name, "detail": detail[:200]})


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system


def _convert(message: dict[str, Any], descriptors: list[int], caps: Caps) -> PagesRead:
    source, target = descriptors
    size = os.fstat(source).st_size
    if size == 0:
        raise Rejection(Reason.EMPTY)
    # A private map, not a copy: PDFium reads the file's own pages, and cannot change the file. It
    # is not closed by hand: a refusal on its way up still points into it.
    mapped = mmap.mmap(source, size, access=mmap.ACCESS_COPY)
    with open(target, "wb", closefd=False) as sink:
        mapping = Mapping(message["mapping"])
        return convert_into(mapped, mapping, sink, caps, message["first"], message["stop"])
