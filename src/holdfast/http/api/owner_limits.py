"""Operators look at the limits of owners and at what they use, and change limits."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError
from holdfast.http.audited import OpsRoute, describe_change, entry_of_change
from holdfast.http.schemas import ERROR_ANSWERS, Model, Ordered
from holdfast.http.served_app import state_of
from holdfast.jobs.client.owner_control import OwnerUse
from holdfast.jobs.declare.validation import UNSTORABLE
from holdfast.jobs.owner_limits import MOST, MOST_BYTES, OwnerLimits
from holdfast.resilience.policy import MOST_REMEMBERED, RateLimit

router = APIRouter(
    prefix="/api/ops/owner-limits", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)

LONGEST_OWNER = 1000
"""Characters of an owner's name."""
_Whole = Annotated[int, Field(strict=True, ge=1, le=MOST)]
_Bytes = Annotated[int, Field(strict=True, ge=1, le=MOST_BYTES)]
_Starts = Annotated[int, Field(strict=True, ge=1, le=MOST_REMEMBERED)]


class RateOut(Ordered):
    """Jobs that may start in any second, minute and day; `spread` spaces them evenly."""

    per_second: _Starts | None = None
    per_minute: _Starts | None = None
    per_day: _Starts | None = None
    spread: Annotated[bool, Field(strict=True)] = False


class LimitsOut(Ordered):
    """What an owner may use; null is no limit."""

    concurrency: _Whole | None = None
    rate: RateOut | None = None
    waiting: _Whole | None = None
    storage_bytes: _Bytes | None = None

    def as_limits(self) -> OwnerLimits:
        """Return the limits.

        Raises:
            ApiError: they cannot be kept.
        """
        try:
            rate = None if self.rate is None else RateLimit(**self.rate.model_dump())
            return OwnerLimits(self.concurrency, rate, self.waiting, self.storage_bytes)
        except ValueError as error:
            raise ApiError(
                ErrorCode.VALIDATION_ERROR, f"These cannot be limits: {error}."
            ) from None


class OwnerUseOut(Model):
    """An owner's limits, whether they are its own, and what it uses; `stored` is by app.

    With `moreUnfinished` there are more than `unfinished`; without `storedComplete` more is stored
    than was counted.
    """

    owner: str
    limits: LimitsOut
    own: bool
    running: int
    unfinished: int
    more_unfinished: bool
    stored_bytes: int
    stored_complete: bool
    stored: dict[str, int]


class OwnerUseAnswer(Model):
    """One owner."""

    owner: OwnerUseOut


class LimitedOwnerOut(Model):
    """An owner with limits of its own."""

    owner: str
    limits: LimitsOut


class LimitedOwnersAnswer(Model):
    """Owners with limits of their own, by name; `default` is what holds for all others."""

    owners: list[LimitedOwnerOut]
    default: LimitsOut


@router.get("")
async def list_limited_owners(
    request: Request,
    after: Annotated[str, Query(max_length=LONGEST_OWNER)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> LimitedOwnersAnswer:
    """List owners with limits of their own; `after` is the last name of the page before."""
    owners = state_of(request).engine.owners
    found = await owners.list(after=after, limit=limit)
    return LimitedOwnersAnswer.model_validate({"owners": found, "default": owners.default})


@router.get("/{owner:path}")
async def show_owner_use(request: Request, owner: str) -> OwnerUseAnswer:
    """Show what an owner may use, and what it uses now."""
    return _answer(await state_of(request).engine.owners.use(checked_owner(owner)))


@router.put("/{owner:path}")
async def set_owner_limits(request: Request, owner: str, asked: LimitsOut) -> OwnerUseAnswer:
    """Give an owner limits of its own, in place of all that held for it."""
    owners = state_of(request).engine.owners
    checked_owner(owner)
    limits = asked.as_limits()
    describe_change(request, **asked.as_json())
    await owners.set_limits(owner, limits, entry=await entry_of_change(request))
    return _answer(await owners.use(owner))


@router.delete("/{owner:path}")
async def clear_owner_limits(request: Request, owner: str) -> OwnerUseAnswer:
    """Delete an owner's own limits, so that those of every owner hold."""
    owners = state_of(request).engine.owners
    checked_owner(owner)
    await owners.clear_limits(owner, entry=await entry_of_change(request))
    return _answer(await owners.use(owner))


def checked_owner(owner: str) -> str:
    """Return `owner` if an owner can be called so.

    Raises:
        ApiError: it cannot.
    """
    if not owner or len(owner) > LONGEST_OWNER or UNSTORABLE.search(owner):
        raise ApiError(ErrorCode.VALIDATION_ERROR, "There is no such owner.")
    return owner


def _answer(use: OwnerUse) -> OwnerUseAnswer:
    return OwnerUseAnswer(owner=OwnerUseOut.model_validate(use))
