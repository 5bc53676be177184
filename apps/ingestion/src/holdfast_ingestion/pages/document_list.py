"""The list of an organisation's documents: filtered and paged by the database, with their jobs."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from holdfast.http import AppPages, ServerState
from holdfast_ingestion.document_state import Document, Stage
from holdfast_ingestion.extraction.plain_text import normalised
from holdfast_ingestion.intake import DOCUMENT_ID
from holdfast_ingestion.job_values import job_id
from holdfast_ingestion.metadata import is_filter
from holdfast_ingestion.pages.document_rows import DocumentRow, document_row
from holdfast_ingestion.repository import Documents, ListFilter

PAGE_SIZE = 25
FINISHED = frozenset({Stage.DONE, Stage.FAILED})
ALL = ""
FILTERS = {
    ALL: ("All", tuple(Stage)),
    "active": ("In progress", tuple(stage for stage in Stage if stage not in FINISHED)),
    "done": ("Done", (Stage.DONE,)),
    "failed": ("Failed", (Stage.FAILED,)),
}
"""The choices of the filter by status, as they stand in the address: a label and the stages."""
_LONGEST = 200
"""Characters of a part of a name that a person typed."""
_LONGEST_LABEL = 20_000
"""Characters of a label; rows lead to lists by each of theirs, which may be 16 KiB long."""


@dataclass(frozen=True, slots=True)
class DocumentsView:
    """Which documents: a choice of `FILTERS`, a part of their names, metadata, and a cursor."""

    status: str = ALL
    text: str = ""
    metadata: str = ""
    cursor: str = ""

    @classmethod
    def of(cls, status: str, text: str, metadata: str, cursor: str) -> "DocumentsView":
        """Return the view that an address asks for; invalid values are ignored."""
        return cls(
            status if status in FILTERS else ALL,
            _typed(text),
            _label(metadata),
            cursor if DOCUMENT_ID.fullmatch(cursor) else "",
        )

    def path(self, **changes: str) -> str:
        """Return the address of this view, with `changes`."""
        fields = {
            "status": self.status,
            "q": self.text,
            "metadata": self.metadata,
            "cursor": self.cursor,
            **changes,
        }
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"/documents?{query}" if query else "/documents"

    @property
    def is_filtered(self) -> bool:
        """Whether documents are left out."""
        return bool(self.status or self.text or self.metadata)

    @property
    def wanted(self) -> str | None:
        """The filter by `metadata`; None where it is not written `key:value`."""
        return self.metadata if is_filter(self.metadata) else None

    def where(self) -> ListFilter:
        """Return the filter of the database."""
        return ListFilter(
            statuses=FILTERS[self.status][1] if self.status else (),
            text=self.text or None,
            metadata=(self.wanted,) if self.wanted else (),
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of the filter by status."""

    key: str
    label: str
    count: int
    path: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class DocumentList:
    """What the page shows. `now` is the store's clock, epoch seconds.

    Args:
        total: how many documents the organisation has.
        paused: sites that documents of this page wait for.
    """

    view: DocumentsView
    rows: list[DocumentRow]
    choices: list[Choice]
    total: int
    paused: list[str]
    newer: str | None
    older: str | None
    now: float


async def read_list(
    pages: AppPages, state: ServerState, organisation: str, view: DocumentsView
) -> DocumentList:
    """Read the documents of `organisation` that `view` asks for."""
    documents = Documents(state.engine.database)
    found, counts = await asyncio.gather(
        documents.page(organisation, view.where(), before=view.cursor or None, limit=PAGE_SIZE + 1),
        documents.counts(organisation),
    )
    page = found[:PAGE_SIZE]
    rows, now = await read_rows(pages, state, page)
    return DocumentList(
        view=view,
        rows=rows,
        choices=_choices(counts, view),
        total=sum(counts.values()),
        paused=list(dict.fromkeys(row.paused_site for row in rows if row.paused_site)),
        newer=view.path(cursor="") if view.cursor else None,
        older=view.path(cursor=page[-1].id) if len(found) > PAGE_SIZE else None,
        now=now,
    )


async def read_rows(
    pages: AppPages, state: ServerState, documents: Sequence[Document]
) -> tuple[list[DocumentRow], float]:
    """Return documents as rows, with the jobs of those that are not finished; and the time."""
    unfinished = [each for each in documents if each.status not in FINISHED]
    found = await asyncio.gather(*(state.engine.get(job_id(each.id)) for each in unfinished))
    jobs = {job.id: job for job in found if job is not None}
    shown = await pages.jobs(list(jobs.values()))
    ids = [job_id(each.id) for each in documents]
    rows = [
        document_row(document, jobs.get(key), shown.rows.get(key))
        for document, key in zip(documents, ids, strict=True)
    ]
    return rows, shown.now


def _choices(counts: dict[Stage, int], view: DocumentsView) -> list[Choice]:
    return [
        Choice(
            key=key,
            label=label,
            count=sum(counts.get(stage, 0) for stage in stages),
            path=view.path(status=key, cursor=""),
            chosen=key == view.status,
        )
        for key, (label, stages) in FILTERS.items()
    ]


def _typed(text: str) -> str:
    return normalised(text.replace("\0", "")).strip()[:_LONGEST]


def _label(text: str) -> str:
    """Return a label as it was typed: blanks may be a part of it."""
    return text.replace("\0", "")[:_LONGEST_LABEL] if text.strip() else ""
