"""The intake of new work: whether it is open, why not, and the room on the disk."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from holdfast.http.ops.access import FULL_ACCESS
from holdfast.http.ops.frame import Frame
from holdfast.http.ops_schemas import Text

_HOME = "/intake"


def add_intake_pages(router: APIRouter, frame: Frame) -> None:
    """Add the page of the intake, and what can be done there."""
    intake = frame.state.intake

    @router.get(_HOME)
    async def show(request: Request) -> Response:
        return await frame.page(request, "intake.html", intake=await intake.state())

    @router.post(f"{_HOME}/pause", dependencies=FULL_ACCESS)
    async def pause(
        request: Request, reason: Annotated[Text, Form(min_length=1, max_length=500)]
    ) -> Response:
        await intake.pause(reason)
        await frame.record(request, "intake.pause", reason=reason)
        return frame.back(request, _HOME, "intake-paused")

    @router.post(f"{_HOME}/resume", dependencies=FULL_ACCESS)
    async def resume(request: Request) -> Response:
        if await intake.resume():
            await frame.record(request, "intake.resume")
        return frame.back(request, _HOME, "intake-resumed")
