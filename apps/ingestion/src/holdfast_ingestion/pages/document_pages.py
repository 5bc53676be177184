"""The pages of documents: the list, one document, and what forms can do to it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from holdfast import ErrorInfo, HoldfastError, StoreUnavailable
from holdfast.http import AppPages, Caller, CallerIdentity, state_of
from holdfast_ingestion.document_state import Document
from holdfast_ingestion.intake import Intake
from holdfast_ingestion.job_values import job_id
from holdfast_ingestion.pages.document_list import FINISHED, DocumentsView, read_list, read_rows

MOST_SHOWN = 20_000
"""Characters of a document's text that its page shows."""
NOTES = {
    "added": "Added. It is processed by itself; you may close the page.",
    "some-added": "Added, except for those that were there already.",
    "there": "The same is there already.",
    "retried": "Back in the queue; its attempts are counted from one.",
    "expedited": "Its next attempt begins now.",
    "paused": "Its site is paused. It begins by itself when the site answers.",
    "refreshing": "Its site is asked for a newer version.",
    "deleted": "Deleted, with its passages and files.",
}
"""What a page says after a form was sent, by the key in its address."""

Text = Annotated[str, Query()]
Field = Annotated[str, Form()]
Move = Callable[[Document], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class _Back:
    """The page that a form was on."""

    page: str
    view: DocumentsView

    def path(self, document: Document, note: str) -> str:
        if self.page == "document" and note != "deleted":
            return f"/documents/{document.id}?note={note}"
        return self.view.path(note=note)


def _view(status: Text = "", q: Text = "", metadata: Text = "", cursor: Text = "") -> DocumentsView:
    return DocumentsView.of(status, q, metadata, cursor)


def _back(
    page: Field = "", status: Field = "", q: Field = "", metadata: Field = "", cursor: Field = ""
) -> _Back:
    return _Back(page, DocumentsView.of(status, q, metadata, cursor))


AskedView = Annotated[DocumentsView, Depends(_view)]
Back = Annotated[_Back, Depends(_back)]


class DocumentPages:
    """Show documents; `intake` changes them."""

    def __init__(self, pages: AppPages, intake: Intake) -> None:
        self._pages = pages
        self._intake = intake

    # -- looking -------------------------------------------------------------------------------

    async def listing(
        self, request: Request, caller: Caller, view: AskedView, note: Text = ""
    ) -> Response:
        """Show the documents of the caller's organisation."""
        # Asked first: what happens while the rows are read comes over the stream.
        sequence = await self._pages.sequence()
        listing = await read_list(self._pages, state_of(request), caller.organisation, view)
        return self._pages.answer(
            request,
            "documents.html",
            part="document_list.html",
            listing=listing,
            most_bytes=self._intake.settings.max_bytes,
            note=note_line(request, note),
            sequence=sequence,
        )

    async def show(
        self, request: Request, caller: Caller, document_id: str, note: Text = ""
    ) -> Response:
        """Show one document: where it is from, what happened to it, and its text."""
        sequence, state = await self._pages.sequence(), state_of(request)
        document = await self._intake.find(document_id, caller)
        (row,), now = await read_rows(self._pages, state, [document])
        job = await state.engine.get(job_id(document.id))
        excerpt = await self._intake.documents.excerpt(caller.organisation, document.id, MOST_SHOWN)
        return self._pages.answer(
            request,
            "document.html",
            part="document_body.html",
            each=row,
            steps=[] if job is None else await self._pages.steps(job),
            is_live=document.status not in FINISHED,
            excerpt=excerpt,
            now=now,
            note=note_line(request, note),
            sequence=sequence,
        )

    # -- doing ---------------------------------------------------------------------------------

    async def retry(self, caller: Caller, document_id: str, back: Back) -> Response:
        """Process a failed document again."""

        async def move(document: Document) -> str:
            await self._intake.retry(document, caller)
            return "retried"

        return await self._do(move, caller, document_id, back)

    async def retry_now(self, caller: Caller, document_id: str, back: Back) -> Response:
        """Begin the next attempt of a document that waits for it."""

        async def move(document: Document) -> str:
            return "expedited" if await self._intake.retry_now(document) else "paused"

        return await self._do(move, caller, document_id, back)

    async def refresh(self, caller: Caller, document_id: str, back: Back) -> Response:
        """Fetch a document again if its site has a newer one."""

        async def move(document: Document) -> str:
            await self._intake.refresh(document, caller)
            return "refreshing"

        return await self._do(move, caller, document_id, back)

    async def delete(self, caller: Caller, document_id: str, back: Back) -> Response:
        """Delete a document."""

        async def move(document: Document) -> str:
            await self._intake.delete(document, caller)
            return "deleted"

        return await self._do(move, caller, document_id, back)

    async def _do(
        self, move: Move, caller: CallerIdentity, document_id: str, back: _Back
    ) -> Response:
        document = await self._intake.find(document_id, caller)
        try:
            note = await move(document)
        except StoreUnavailable:
            raise
        except HoldfastError as error:
            # What the row shows by now says more than a page that refuses.
            note = str(error.code)
        return RedirectResponse(back.path(document, note), 303)


def note_line(request: Request, key: str) -> str:
    """Return the line of a note: one of `NOTES`, or that of an error's code."""
    known: ErrorInfo | None = request.app.state.errors.get(key)
    return NOTES.get(key, "") if known is None else known.message


def document_pages(pages: AppPages, intake: Intake) -> APIRouter:
    """Return the routes of the pages."""
    own, router = DocumentPages(pages, intake), APIRouter()
    router.add_api_route("/documents", own.listing, methods=["GET", "HEAD"])
    router.add_api_route("/documents/{document_id}", own.show, methods=["GET"])
    router.add_api_route("/documents/{document_id}/retry", own.retry, methods=["POST"])
    router.add_api_route("/documents/{document_id}/retry-now", own.retry_now, methods=["POST"])
    router.add_api_route("/documents/{document_id}/refresh", own.refresh, methods=["POST"])
    router.add_api_route("/documents/{document_id}/delete", own.delete, methods=["POST"])
    return router
