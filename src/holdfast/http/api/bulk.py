"""Many of one's own jobs at once: download as one file, retry, remove."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from holdfast.http import bulk
from holdfast.http.api_errors import ErrorDetail, as_api_error
from holdfast.http.schemas import ERROR_ANSWERS, BulkAnswer, Ordered, RefusedOut
from holdfast.http.served_app import check_kinds, state_of
from holdfast.http.sessions import Owner
from holdfast.jobs.model import JobStatus

router = APIRouter(prefix="/api/bulk", tags=["jobs"], responses=ERROR_ANSWERS)


class SelectionIn(Ordered):
    """Which jobs: those of `ids`; without any, all of one's own that match the other fields."""

    ids: list[str] = Field(default=[], max_length=bulk.MOST)
    name: str = Field(default="", max_length=200, description="A part of the name on pages.")
    kind: list[str] = Field(default=[], max_length=50)

    def selection(self) -> bulk.Selection:
        """Return it with its kinds checked."""
        check_kinds(self.kind)
        return bulk.Selection(ids=tuple(self.ids), name=self.name, kinds=tuple(self.kind))


class RemovalIn(Ordered):
    """Which jobs to remove, each by its id: a removal never means all."""

    ids: list[str] = Field(min_length=1, max_length=bulk.MOST)


@router.get(
    "/download",
    response_class=Response,
    responses={200: {"description": "A ZIP file.", "content": {"application/zip": {}}}},
)
async def download_all(
    request: Request,
    owner: Owner,
    ids: Annotated[list[str] | None, Query(alias="id", max_length=bulk.MOST)] = None,
    name: Annotated[str, Query(max_length=200)] = "",
    kind: Annotated[list[str] | None, Query(max_length=50)] = None,
) -> Response:
    """Download the results of complete jobs as one ZIP file; others are left out.

    Without `id`: of all one's own jobs that match `name`, a part of the name on pages, and `kind`.
    """
    asked = SelectionIn(ids=ids or [], name=name, kind=kind or [])
    return await bulk.zip_answer(state_of(request), owner, asked.selection())


@router.post("/retry")
async def retry_all(request: Request, owner: Owner, order: SelectionIn) -> BulkAnswer:
    """Requeue failed jobs; others are left as they are.

    At most 900 at once: repeat it while `done` has as many.
    """
    state = state_of(request)
    failed = bulk.selected(state, owner, order.selection(), JobStatus.FAILED)
    return _answer(request, await bulk.retry_all(state, await bulk.first_of(failed)))


@router.post("/remove")
async def remove_all(request: Request, owner: Owner, order: RemovalIn) -> BulkAnswer:
    """Delete jobs, their history and their files, now; what is not finished is cancelled first.

    A running job that has not stopped within a few seconds is refused.
    """
    state = state_of(request)
    jobs = await bulk.first_of(bulk.selected(state, owner, bulk.Selection(ids=tuple(order.ids))))
    return _answer(request, await bulk.remove_all(state, jobs))


def _answer(request: Request, result: bulk.BulkResult) -> BulkAnswer:
    refused = {job_id: as_api_error(request, error) for job_id, error in result.refused.items()}
    return BulkAnswer(
        done=result.done,
        refused=[
            RefusedOut(id=job_id, error=ErrorDetail(code=str(error.code), message=str(error)))
            for job_id, error in refused.items()
        ],
    )
