"""Operators erase everything of an owner."""

from fastapi import APIRouter, Request

from holdfast.errors import ErrorCode
from holdfast.http.api.owner_limits import checked_owner
from holdfast.http.api_errors import ApiError
from holdfast.http.audited import OpsRoute, begin_change, changed_nothing, describe_change
from holdfast.http.schemas import ERROR_ANSWERS, Model
from holdfast.http.served_app import state_of
from holdfast.jobs.client.erasure import JobsStillRun, UndeclaredKinds

router = APIRouter(
    prefix="/api/ops/owners", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)

_SECONDS = 20.0
"""How long running jobs are waited for; a proxy gives up on longer requests."""


class ErasedOut(Model):
    """What was deleted of an owner; `data` is what apps keep, such as `grading.submissions`."""

    owner: str
    jobs: int
    webhooks: int
    data: dict[str, int]


class ErasedAnswer(Model):
    """What was deleted."""

    erased: ErasedOut


@router.delete("/{owner:path}")
async def erase_owner(request: Request, owner: str) -> ErasedAnswer:
    """Delete all jobs, files and webhooks of an owner, and what the apps keep; it can be repeated.

    Running jobs are cancelled first; where they do not stop in time, the answer is 409. So it is,
    with nothing deleted, where no app of this server declares the kind of one of the jobs.
    """
    checked_owner(owner)
    begin_change(request)
    try:
        erased = await state_of(request).engine.erase(owner, timeout=_SECONDS)
    except UndeclaredKinds as error:
        changed_nothing(request)
        line = f"Nothing was deleted: no app here declares {', '.join(error.kinds)}."
        raise ApiError(ErrorCode.INVALID_STATE, line) from None
    except JobsStillRun as error:
        count = len(error.job_ids)
        describe_change(request, running=count)
        jobs = "1 job was" if count == 1 else f"{count} jobs were"
        line = f"{jobs} asked to stop and not yet stopped; please repeat this in a moment."
        raise ApiError(ErrorCode.INVALID_STATE, line, headers={"retry-after": "10"}) from None
    describe_change(request, jobs=erased.jobs, webhooks=erased.webhooks, data=dict(erased.data))
    return ErasedAnswer(erased=ErasedOut.model_validate(erased))
