"""The child's side: `python -m holdfast_conversion.gateway.children.child SOCKET LIMITS`."""

import codecs
import ctypes
import io
import json
import mmap
import os
import signal
import socket
import sys
from typing import Any

from holdfast_conversion.gateway.children import confine
from holdfast_conversion.gateway.children.wire import MESSAGE_BYTES, TAKEN
from holdfast_conversion.gateway.formats import Caps, Mapping
from holdfast_conversion.gateway.reading.mappings import convert_into
from holdfast_conversion.gateway.refusals import Reason, Refusal

_NO_MEMORY = json.dumps({"reason": Reason.OUT_OF_MEMORY}).encode()
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


def main() -> None:
    """Serve the parent at the other end of the socket until it is gone."""
    # A Ctrl-C at the terminal is the server's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    limits = json.loads(sys.argv[2])
    caps = Caps(pages=limits["pages"], output_bytes=limits["output_bytes"])
    confine.die_with_parent()
    _warm_up()
    confine.limit_resources(limits["memory_bytes"], caps.output_bytes)
    confined = confine.give_up_the_rest()
    connection.send(json.dumps({"confined": confined}).encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 2)
        if not message:
            os._exit(0)
        connection.send(TAKEN)
        confine.allow_cpu(limits["cpu_seconds"])
        connection.send(_answer(json.loads(message), descriptors, caps))
        for descriptor in descriptors:
            os.close(descriptor)


def _warm_up() -> None:
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "latin-1", "ascii"):
        codecs.lookup(encoding)
    for mapping in Mapping:
        convert_into(_SAMPLE, mapping, io.BytesIO(), Caps())


def _answer(message: dict[str, Any], descriptors: list[int], caps: Caps) -> bytes:
    try:
        source, target = descriptors
        _convert(source, Mapping(message["mapping"]), target, caps)
        return b'{"reason": null}'
    except Refusal as refusal:
        return json.dumps({"reason": refusal.reason, "detail": refusal.detail[:200]}).encode()
    except MemoryError:
        return _NO_MEMORY
    except OSError as error:
        return json.dumps({"reason": Reason.STORAGE, "detail": str(error.strerror)}).encode()
    except Exception as error:
        # Our own rules have failed on this file; the server goes on, and the log names the kind.
        detail = f"{type(error).__name__}: {error}"[:200]
        return json.dumps({"reason": Reason.CRASHED, "detail": detail}).encode()


def _convert(source: int, mapping: Mapping, target: int, caps: Caps) -> None:
    size = os.fstat(source).st_size
    if size == 0:
        raise Refusal(Reason.EMPTY)
    # A private map, not a copy: PDFium reads the file's own pages, and cannot change the file. It
    # is not closed by hand: a refusal on its way up still points into it.
    mapped = mmap.mmap(source, size, access=mmap.ACCESS_COPY)
    data = (ctypes.c_char * size).from_buffer(mapped)
    with open(target, "wb", closefd=False) as sink:
        convert_into(data, mapping, sink, caps)


if __name__ == "__main__":
    main()
