"""The service's part of the front page: the upload form, and the wording of statuses and notes."""

from pathlib import Path

from holdfast import JobStatus
from holdfast.http import PagePart
from holdfast_conversion.gateway.formats import Mapping
from holdfast_conversion.service_settings import ConversionSettings
from holdfast_conversion.upload_form import DEFAULT_MAPPING, shown_size, too_large_line

_GIVES = {
    Mapping.LAYOUT: "Pages, blocks, lines and words, each with its place",
    Mapping.TEXT: "Paragraphs in the order of reading",
    Mapping.METADATA: "Title, author, outline and page sizes",
}
_NOTES = {
    "uploaded": "Uploaded. It is converted by itself; you may close the page.",
    "twin": "You have converted the same file before: it is in the list.",
    "sample": "A sample is on its way.",
}


def conversion_page(settings: ConversionSettings) -> PagePart:
    """Return the part for a service that is set up like this."""
    return PagePart(
        title="Convert PDFs to XML",
        noun="conversions",
        counted=("file", "files"),
        removal="The PDF and its XML are deleted now, on this server.",
        folder=Path(__file__).parent,
        intake="intake.html",
        empty="empty.html",
        modules=("upload.js",),
        styles=("intake.css",),
        statuses={JobStatus.PROCESSING: "Converting", JobStatus.COMPLETE: "Ready"},
        notes=_NOTES,
        shortcuts={"u": "choose files"},
        values={
            "mappings": [(each, each.capitalize(), _GIVES[each]) for each in Mapping],
            "chosen": DEFAULT_MAPPING,
            "most_bytes": settings.max_upload_bytes,
            "most": shown_size(settings.max_upload_bytes),
            "too_large": too_large_line(settings.max_upload_bytes),
            "kept": _shown_time(settings.artifact_ttl),
        },
    )


def _shown_time(seconds: float) -> str:
    """Return a length of time in the largest unit that it has two of."""
    for unit, length in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:g} seconds"
