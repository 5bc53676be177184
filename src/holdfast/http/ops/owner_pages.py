"""Owners: what each may use, what it uses now, and its limits to be changed."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response

from holdfast.errors import ErrorCode
from holdfast.http.api.owner_limits import LimitsOut
from holdfast.http.api_errors import ApiError
from holdfast.http.ops.access import FULL_ACCESS
from holdfast.http.ops.frame import Change, Frame
from holdfast.http.ops_schemas import Text
from holdfast.jobs.operations_port import AuditEntry
from holdfast.jobs.owner_limits import OwnerLimits
from holdfast.resilience.policy import RateLimit

Name = Annotated[Text, Form(min_length=1, max_length=1000)]
_Limit = Annotated[Text, Form(max_length=20)]
_PAGE = 100
FIELDS = {
    "concurrency": "Running at once",
    "per_second": "Starts per second",
    "per_minute": "Starts per minute",
    "per_day": "Starts per day",
    "waiting": "Unfinished jobs",
    "storage_bytes": "Stored bytes",
}
"""The limits by the names of their fields in the form."""


def add_owner_pages(router: APIRouter, frame: Frame) -> None:
    """Add the page about owners, and what can be done there."""
    _add_page(router, frame)
    _add_changes(router, frame)


def _add_page(router: APIRouter, frame: Frame) -> None:
    owners = frame.engine.owners

    @router.get("/owners")
    async def show_owners(
        request: Request,
        owner: Annotated[Text, Query(max_length=1000)] = "",
        after: Annotated[Text, Query(max_length=1000)] = "",
    ) -> Response:
        limited = await owners.list(after=after, limit=_PAGE)
        use = await owners.use(owner) if owner.strip() else None
        return await frame.page(
            request,
            "owners.html",
            owner=owner,
            use=use,
            fields=FIELDS,
            values=values_of(owners.default if use is None else use.limits),
            default=values_of(owners.default),
            limited=[(each.owner, values_of(each.limits)) for each in limited],
            older={"after": limited[-1].owner} if len(limited) == _PAGE else None,
        )


def _add_changes(router: APIRouter, frame: Frame) -> None:
    owners = frame.engine.owners

    @router.post("/owners/limit", dependencies=FULL_ACCESS)
    async def limit_owner(
        request: Request,
        name: Name,
        concurrency: _Limit = "",
        per_second: _Limit = "",
        per_minute: _Limit = "",
        per_day: _Limit = "",
        waiting: _Limit = "",
        storage_bytes: _Limit = "",
    ) -> Response:
        before = (await owners.limits(name)).rate
        spread = before is not None and before.spread
        second, minute, day = whole(per_second), whole(per_minute), whole(per_day)
        rated = (second, minute, day) != (None, None, None)
        try:
            rate = RateLimit(minute, day, second, spread) if rated else None
            limits = OwnerLimits(whole(concurrency), rate, whole(waiting), whole(storage_bytes))
        except ValueError:
            raise _refusal() from None
        detail = LimitsOut.model_validate(limits).as_json()
        change = Change("owner-limits.set", name, back_to(name), "limits-set", detail)

        async def move(entry: AuditEntry) -> None:
            await owners.set_limits(name, limits, entry=entry)

        return await frame.do_with_entry(request, move, change)

    @router.post("/owners/clear", dependencies=FULL_ACCESS)
    async def clear_owner(request: Request, name: Name) -> Response:
        change = Change("owner-limits.delete", name, back_to(name), "limits-cleared")

        async def move(entry: AuditEntry) -> None:
            await owners.clear_limits(name, entry=entry)

        return await frame.do_with_entry(request, move, change)


def back_to(owner: str) -> str:
    """Return the path of the page that shows `owner`."""
    return f"/owners?{urlencode({'owner': owner})}"


def values_of(limits: OwnerLimits) -> dict[str, int | None]:
    """Return limits by the names of `FIELDS`."""
    return {
        name: getattr(limits.rate if name.startswith("per_") else limits, name, None)
        for name in FIELDS
    }


def whole(text: str) -> int | None:
    """Return a number of a form, or None where it is left empty.

    Raises:
        ApiError: it is something else.
    """
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise _refusal()
    return int(text)


def _refusal() -> ApiError:
    line = "A limit is a whole number of at least 1, or empty for none."
    return ApiError(ErrorCode.VALIDATION_ERROR, line)
