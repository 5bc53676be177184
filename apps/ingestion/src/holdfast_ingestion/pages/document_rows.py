"""A document as a row: its name, where it is from, how far it is. Nothing here does I/O."""

from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from holdfast import HeldBy, Job
from holdfast.http import Look, RenderedRow, ShownFact
from holdfast_ingestion.document_state import Document, Stage
from holdfast_ingestion.job_values import job_id

_LABELS = {
    Stage.QUEUED: "Queued",
    Stage.FETCHING: "Fetching",
    Stage.EXTRACTING: "Extracting",
    Stage.INDEXING: "Indexing",
    Stage.DONE: "Done",
    Stage.FAILED: "Failed",
}
_UPLOADS_PAUSED = "Texts and files are paused for the moment. It goes on by itself."


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document, and its job as pages show it.

    `paused_site` is the site that it waits for, where that one is not fetched from at the moment.
    """

    document: Document
    row: RenderedRow
    can_refresh: bool
    paused_site: str = ""


def name_of(title: str | None, filename: str | None, url: str | None, type_name: str = "") -> str:
    """Return what a document is called."""
    return title or filename or url or (f"A {type_name} document" if type_name else "A document")


def host_of(url: str | None) -> str:
    """Return the host of an address, with its port; empty where there is none."""
    return urlsplit(url).netloc if url else ""


def origin_of(url: str | None, filename: str | None, type_name: str) -> str:
    """Return where a document came from, in a word or two."""
    return host_of(url) or filename or type_name


def document_row(
    document: Document, job: Job | None = None, shown: RenderedRow | None = None
) -> DocumentRow:
    """Return the row of `document`.

    Args:
        document: what is shown.
        job: its job, unless it is finished.
        shown: this job as a row.
    """
    if job is None or shown is None or document.status in {Stage.DONE, Stage.FAILED}:
        row = _finished(document)
        can_refresh = document.status is Stage.DONE and document.url is not None
        return DocumentRow(document, row, can_refresh)
    is_held = shown.look is Look.HELD
    by_site = is_held and job.held_by not in {HeldBy.QUEUE, HeldBy.KIND}
    return DocumentRow(
        document,
        _unfinished(document, shown, by_site=by_site),
        can_refresh=False,
        paused_site=host_of(document.url) if by_site else "",
    )


def _unfinished(document: Document, shown: RenderedRow, *, by_site: bool) -> RenderedRow:
    running = shown.look is Look.RUNNING
    line = "" if running else shown.line
    if by_site:
        line = _paused_line(document)
    return replace(
        shown,
        name=_name(document),
        facts=_facts(document),
        created_at=document.created_at,
        label=_LABELS[document.status] if running else shown.label,
        line=line,
        can_retry=False,
        can_cancel=False,
    )


def _paused_line(document: Document) -> str:
    site = host_of(document.url)
    if not site:
        return _UPLOADS_PAUSED
    return f"{site} does not answer and is paused. It is tried again by itself."


def _finished(document: Document) -> RenderedRow:
    failed = document.status is Stage.FAILED
    looks = {Stage.DONE: Look.DONE, Stage.FAILED: Look.FAILED}
    tried = document.attempts_made
    return RenderedRow(
        id=job_id(document.id),
        name=_name(document),
        facts=_facts(document),
        created_at=document.created_at,
        look=looks.get(document.status, Look.RUNNING),
        label=_LABELS[document.status],
        attempts=f"After {tried} attempt{'s' if tried > 1 else ''}" if failed and tried else "",
        until=None,
        until_words="",
        line=_finished_line(document),
        progress=None,
        can_download=False,
        can_retry=failed,
        can_expedite=False,
        can_cancel=False,
    )


def _finished_line(document: Document) -> str:
    if document.failure is not None:
        return document.failure[1]
    if document.refresh_error is not None:
        return f"The last refresh failed: {document.refresh_error}"
    return ""


def _name(document: Document) -> str:
    return name_of(document.title, document.filename, document.url, document.type)


def _facts(document: Document) -> tuple[ShownFact, ...]:
    source = origin_of(document.url, document.filename, document.type)
    facts = [ShownFact("Source", source)]
    if document.status is Stage.DONE:
        count = document.chunks
        facts.append(ShownFact("Passages", "1 passage" if count == 1 else f"{count} passages"))
    return tuple(facts)
