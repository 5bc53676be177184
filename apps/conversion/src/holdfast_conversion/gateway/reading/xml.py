"""Write XML as it is made, counting bytes, so that memory does not grow with the document."""

from typing import Protocol

from holdfast_conversion.gateway.rejections import Reason, Rejection

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
"""What every document begins with."""

_FLUSH_CHARACTERS = 1 << 16


class Sink(Protocol):
    """Where the bytes go."""

    def write(self, data: bytes, /) -> object:
        """Take `data`, all of it."""
        ...


class XmlWriter:
    """Collect text and hand it on in pieces; a `Rejection` beyond `most_bytes` in all."""

    def __init__(self, sink: Sink, most_bytes: int) -> None:
        self._sink = sink
        self._left = most_bytes
        self._parts: list[str] = []
        self._characters = 0

    def put(self, markup: str) -> None:
        """Write markup that is well-formed as it stands."""
        self._parts.append(markup)
        self._characters += len(markup)
        if self._characters > _FLUSH_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Hand on what is still held back."""
        data = "".join(self._parts).encode("utf-8")
        self._parts.clear()
        self._characters = 0
        self._left -= len(data)
        if self._left < 0:
            raise Rejection(Reason.OUTPUT_TOO_LARGE)
        self._sink.write(data)


def escaped(text: str) -> str:
    """Return clean `text` as it may stand in an element or between double quotes."""
    if "&" in text:
        text = text.replace("&", "&amp;")
    if "<" in text:
        text = text.replace("<", "&lt;")
    if ">" in text:
        text = text.replace(">", "&gt;")
    if '"' in text:
        text = text.replace('"', "&quot;")
    return text


def points(value: float) -> str:
    """Return a length in points with at most two decimals."""
    return without_zeros(f'"{value:.2f}"')[1:-1]


def without_zeros(markup: str) -> str:
    """Return `markup`, whose attributes are all lengths with two decimals, without needless zeros.

    Many lengths at once take a quarter of the time that one after the other does. Escaped text has
    no quotation mark, so that only attributes change.
    """
    markup = markup.replace('.00"', '."').replace('0"', '"').replace('."', '"')
    return markup.replace('"-0"', '"0"')
