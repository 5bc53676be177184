"""Webhooks of all owners: their addresses, what was delivered, and what can be done."""

from typing import Literal

from fastapi import APIRouter, Request, Response

from holdfast.http.api.webhooks import find_webhook, test_delivery
from holdfast.http.ops.access import FULL_ACCESS
from holdfast.http.ops.frame import Change, Confirmation, Confirmed, Frame
from holdfast.jobs.declare.webhook_job import KIND, host_of

_HOME = "/webhooks"
_MOST = 200
"""Most webhooks on the page: the newest."""
_DELIVERIES = 50


def add_webhook_pages(router: APIRouter, frame: Frame) -> None:
    """Add the pages of webhooks, and what can be done to one or to all."""
    _add_pages(router, frame)
    _add_changes(router, frame)


def _add_pages(router: APIRouter, frame: Frame) -> None:
    engine = frame.engine

    @router.get(_HOME)
    async def show_all(request: Request) -> Response:
        webhooks = await engine.webhooks.newest(limit=_MOST + 1)
        paused = {state.name: state for state in await engine.kinds.list() if state.paused}
        return await frame.page(
            request,
            "webhooks.html",
            webhooks=webhooks[:_MOST],
            more=len(webhooks) > _MOST,
            is_delivered=_is_delivered(frame),
            paused=paused.get(KIND),
        )

    @router.get(f"{_HOME}/{{webhook_id}}")
    async def show_one(request: Request, webhook_id: str) -> Response:
        webhook = await find_webhook(frame.state, webhook_id)
        return await frame.page(
            request,
            "webhook.html",
            webhook=webhook,
            host=host_of(webhook.url),
            is_delivered=_is_delivered(frame),
            deliveries=await engine.webhooks.deliveries(webhook.id, limit=_DELIVERIES),
            most=_DELIVERIES,
        )


def _add_changes(router: APIRouter, frame: Frame) -> None:
    engine = frame.engine

    @router.post(f"{_HOME}/deliveries/{{move}}", dependencies=FULL_ACCESS)
    async def change_deliveries(request: Request, move: Literal["pause", "resume"]) -> Response:
        pauses = move == "pause"
        act = engine.kinds.pause if pauses else engine.kinds.resume
        note = "deliveries-paused" if pauses else "resumed"
        change = Change(f"webhooks.{move}", "", _HOME, note)
        return await frame.do(request, act(KIND), change)

    @router.post(f"{_HOME}/{{webhook_id}}/test", dependencies=FULL_ACCESS)
    async def test(request: Request, webhook_id: str) -> Response:
        webhook = await find_webhook(frame.state, webhook_id)
        await test_delivery(frame.state, webhook)
        await frame.record(request, "webhooks.test", webhook.id, url=webhook.url)
        return frame.back(request, f"{_HOME}/{webhook.id}", "tested")

    @router.post(f"{_HOME}/{{webhook_id}}/remove", dependencies=FULL_ACCESS)
    async def remove(request: Request, webhook_id: str, confirmed: Confirmed = "") -> Response:
        webhook = await find_webhook(frame.state, webhook_id)
        path = f"{_HOME}/{webhook.id}"
        if not confirmed:
            return frame.confirm(
                request,
                Confirmation(
                    title="Remove this webhook?",
                    words=f"No more messages are sent to {webhook.url}, nor those that wait to be "
                    "delivered. This cannot be undone.",
                    action=f"{path}/remove",
                    label="Remove",
                    back=path,
                ),
            )
        await engine.webhooks.remove(webhook.id)
        await frame.record(request, "webhooks.remove", webhook.id, url=webhook.url)
        return frame.back(request, _HOME, "removed")


def _is_delivered(frame: Frame) -> bool:
    return frame.engine.registry.find(KIND) is not None
