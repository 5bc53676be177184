"""The audit log of what operators have changed."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from holdfast.http.api_errors import refusing_cursors
from holdfast.http.audited import OpsRoute
from holdfast.http.schemas import ERROR_ANSWERS, Model, Moment
from holdfast.http.served_app import state_of

router = APIRouter(prefix="/api/audit", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS)


class AuditEntryOut(Model):
    """A change that a person has made."""

    at: Moment
    who: str
    role: str
    action: str
    target: str
    detail: dict[str, Any]


class AuditAnswer(Model):
    """Entries of the audit log, newest first."""

    entries: list[AuditEntryOut]
    next_cursor: str | None


@router.get("")
async def list_audit(
    request: Request,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> AuditAnswer:
    """List who has changed what."""
    with refusing_cursors():
        page = await state_of(request).engine.audit.list(cursor=cursor or None, limit=limit)
    return AuditAnswer.model_validate(page)
