"""Operators pause the intake of new work, resume it, and look at it."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from holdfast.http.audited import OpsRoute, describe_change
from holdfast.http.intake_gate import IntakeState
from holdfast.http.schemas import ERROR_ANSWERS, Model, Moment
from holdfast.http.served_app import state_of

router = APIRouter(
    prefix="/api/intake", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)


class IntakeOut(Model):
    """Whether new work is taken in.

    `paused` is by operators; `diskFull` keeps out only what writes files, and ends by itself.
    """

    paused: bool
    reason: str | None
    paused_at: Moment | None
    disk_full: bool
    free_bytes: int | None
    least_bytes: int


class IntakeAnswer(Model):
    """The intake."""

    intake: IntakeOut


class PauseIntake(Model):
    """Why the intake is paused: one line, for other operators."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]


@router.get("")
async def show_intake(request: Request) -> IntakeAnswer:
    """Show whether new work is taken in, and how much room there is for files."""
    return _answer(await state_of(request).intake.state())


@router.post("/pause")
async def pause_intake(request: Request, asked: PauseIntake) -> IntakeAnswer:
    """Take in no new work, in all servers; what is there is worked on."""
    intake = state_of(request).intake
    await intake.pause(asked.reason)
    describe_change(request, reason=asked.reason)
    return _answer(await intake.state())


@router.post("/resume")
async def resume_intake(request: Request) -> IntakeAnswer:
    """Take in new work again."""
    intake = state_of(request).intake
    await intake.resume()
    return _answer(await intake.state())


def _answer(found: IntakeState) -> IntakeAnswer:
    pause = found.pause
    shown = {
        "paused": pause is not None,
        "reason": None if pause is None else pause.reason,
        "paused_at": None if pause is None else pause.paused_at,
        "disk_full": found.is_full,
        "free_bytes": found.free_bytes,
        "least_bytes": found.least_bytes,
    }
    return IntakeAnswer(intake=IntakeOut.model_validate(shown))
