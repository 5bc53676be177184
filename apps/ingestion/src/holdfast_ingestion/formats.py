"""What a document can be, and how to recognise it by content type, file name or first bytes."""

from enum import StrEnum

_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


class Format(StrEnum):
    """A format that text can be extracted from."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"

    @property
    def media_type(self) -> str:
        """The content type of this format."""
        return _MEDIA_TYPES[self]

    @property
    def is_plain(self) -> bool:
        """Whether its text needs no parser."""
        return self in {Format.TEXT, Format.MARKDOWN}


_MEDIA_TYPES = {
    Format.TEXT: "text/plain",
    Format.MARKDOWN: "text/markdown",
    Format.HTML: "text/html",
    Format.PDF: "application/pdf",
    Format.DOCX: _WORD,
}
_BY_MEDIA_TYPE = {
    **{media_type: each for each, media_type in _MEDIA_TYPES.items()},
    "application/xhtml+xml": Format.HTML,
    "text/x-markdown": Format.MARKDOWN,
    "text/x-rst": Format.TEXT,
    "application/json": Format.TEXT,
    "application/xml": Format.TEXT,
    "text/xml": Format.TEXT,
    "text/csv": Format.TEXT,
    "text/tab-separated-values": Format.TEXT,
}
_BY_ENDING = {
    "txt": Format.TEXT,
    "text": Format.TEXT,
    "md": Format.MARKDOWN,
    "markdown": Format.MARKDOWN,
    "html": Format.HTML,
    "htm": Format.HTML,
    "xhtml": Format.HTML,
    "pdf": Format.PDF,
    "docx": Format.DOCX,
}


def format_of_media_type(media_type: str) -> Format | None:
    """Return the format of a content type without parameters; None where it is not supported."""
    return _BY_MEDIA_TYPE.get(media_type.lower())


def format_of_filename(name: str) -> Format | None:
    """Return the format that the ending of a file's name says; None where that is none of them."""
    stem, dot, ending = name.rpartition(".")
    return _BY_ENDING.get(ending.lower()) if stem and dot else None


def fits(head: bytes, chosen: Format) -> bool:
    """Say whether a file that begins with `head` can be of the format `chosen`."""
    if chosen is Format.PDF:
        return b"%PDF-" in head[:1024]
    if chosen is Format.DOCX:
        return head.startswith(b"PK\x03\x04")
    return True
