"""Webhooks: an owner adds, lists, tests and removes one's own; operators see those of all.

What makes this server call an address needs an API key or an operator: a session is free, and
every new host leaves a downstream.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from holdfast.errors import ErrorCode
from holdfast.http.admin import ChangingOperator, IsAdmin, changing_operator
from holdfast.http.api_errors import ApiError, ErrorDetail, forbidden
from holdfast.http.audited import record_change
from holdfast.http.operators import Operator
from holdfast.http.schemas import ERROR_ANSWERS, Model, Moment
from holdfast.http.served_app import ServerState, state_of
from holdfast.http.sessions import Owner, session_of
from holdfast.jobs.client.webhook_control import UnknownWebhook, WebhookDelivery
from holdfast.jobs.declare.webhook_job import KIND
from holdfast.jobs.exceptions import UnknownKind
from holdfast.jobs.webhook_port import ENDS, Webhook

router = APIRouter(prefix="/api/webhooks", tags=["webhooks"], responses=ERROR_ANSWERS)

_MOST_OF_OWNER = 20
_LONGEST_ID = 40
_KEY_NEEDED = "Webhooks are added and tested with an API key; an operator can give you one."


def require_key(request: Request) -> None:
    """Refuse a request with neither an API key nor the token of an operator who may change things.

    Raises:
        ApiError: `FORBIDDEN`.
    """
    if session_of(request).organisation is None and changing_operator(request) is None:
        raise ApiError(ErrorCode.FORBIDDEN, _KEY_NEEDED)


_KEY = [Depends(require_key)]


class WebhookIn(Model):
    """An address to notify when jobs end: one's own, or for operators those of all owners."""

    url: Annotated[str, Field(max_length=2000)]
    kinds: Annotated[list[str] | None, Field(max_length=100)] = None
    events: Annotated[list[str], Field(max_length=3)] = Field(
        default_factory=lambda: [*map(str, ENDS)]
    )
    secret: Annotated[str | None, Field(max_length=200)] = None
    all_owners: bool = False


class WebhookOut(Model):
    """A webhook, without its secret."""

    id: str
    url: str
    owner: str | None
    kinds: list[str] | None
    events: list[str]
    created_at: Moment


class WebhookAdded(Model):
    """A new webhook, and its secret, which is not shown again."""

    webhook: WebhookOut
    secret: str


class WebhooksAnswer(Model):
    """Webhooks, oldest first."""

    webhooks: list[WebhookOut]


class DeliveryOut(Model):
    """One message to a webhook, and how far its delivery is."""

    id: str
    event: str
    job_id: str | None
    status: str
    attempts: int
    http_status: int | None
    error: ErrorDetail | None
    created_at: Moment
    finished_at: Moment | None


class DeliveriesAnswer(Model):
    """Deliveries, newest first."""

    deliveries: list[DeliveryOut]


class TestAnswer(Model):
    """The id of the delivery of a test message."""

    delivery_id: str


@router.get("")
async def list_webhooks(request: Request, owner: Owner, is_admin: IsAdmin) -> WebhooksAnswer:
    """List one's own webhooks; operators see all."""
    found = await state_of(request).engine.webhooks.list(None if is_admin else owner)
    return WebhooksAnswer(webhooks=[_shown(webhook) for webhook in found])


@router.post("", status_code=201, dependencies=_KEY)
async def add_webhook(
    request: Request, asked: WebhookIn, owner: Owner, operator: ChangingOperator
) -> WebhookAdded:
    """Notify an address when jobs end, from now on; messages are signed with the secret."""
    webhooks = state_of(request).engine.webhooks
    if state_of(request).engine.registry.find(KIND) is None:
        raise _not_delivered()
    if asked.all_owners and operator is None:
        raise forbidden()
    if not asked.all_owners and len(await webhooks.list(owner)) >= _MOST_OF_OWNER:
        line = f"There are {_MOST_OF_OWNER} webhooks already; remove one first."
        raise ApiError(ErrorCode.INVALID_STATE, line)
    try:
        added = await webhooks.add(
            asked.url,
            owner=None if asked.all_owners else owner,
            kinds=asked.kinds,
            events=ENDS if asked.events is None else asked.events,
            secret=asked.secret,
        )
    except ValueError as error:
        raise ApiError(ErrorCode.VALIDATION_ERROR, f"This cannot be used: {error}.") from None
    await _record(request, operator, owner, "add", added)
    return WebhookAdded(webhook=_shown(added), secret=added.secret)


@router.delete("/{webhook_id}", status_code=204)
async def remove_webhook(
    request: Request, webhook_id: str, owner: Owner, operator: ChangingOperator
) -> Response:
    """Stop notifying an address."""
    state = state_of(request)
    webhook = await _own(state, webhook_id, owner, operator is not None)
    await state.engine.webhooks.remove(webhook.id)
    await _record(request, operator, owner, "remove", webhook)
    return Response(status_code=204)


@router.post("/{webhook_id}/test", status_code=202, dependencies=_KEY)
async def test_webhook(
    request: Request, webhook_id: str, owner: Owner, operator: ChangingOperator
) -> TestAnswer:
    """Send a message of the type `test`."""
    state = state_of(request)
    webhook = await _own(state, webhook_id, owner, operator is not None)
    delivery_id = await test_delivery(state, webhook)
    await _record(request, operator, owner, "test", webhook)
    return TestAnswer(delivery_id=delivery_id)


@router.get("/{webhook_id}/deliveries")
async def list_deliveries(
    request: Request,
    webhook_id: str,
    owner: Owner,
    is_admin: IsAdmin,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> DeliveriesAnswer:
    """List what was sent to an address, newest first, and what came of it."""
    state = state_of(request)
    webhook = await _own(state, webhook_id, owner, is_admin)
    found = await state.engine.webhooks.deliveries(webhook.id, limit=limit)
    return DeliveriesAnswer(deliveries=[_delivery(each) for each in found])


async def find_webhook(state: ServerState, webhook_id: str) -> Webhook:
    """Return a webhook of any owner.

    Raises:
        ApiError: `FORBIDDEN`, there is none.
    """
    try:
        if len(webhook_id) > _LONGEST_ID or not webhook_id.isalnum():
            raise UnknownWebhook(webhook_id)
        return await state.engine.webhooks.get(webhook_id)
    except UnknownWebhook:
        raise forbidden() from None


async def test_delivery(state: ServerState, webhook: Webhook) -> str:
    """Send a message of the type `test`; return the id of its delivery.

    Raises:
        ApiError: `INVALID_STATE`, no app of this server delivers webhooks.
    """
    try:
        return await state.engine.webhooks.test(webhook.id)
    except UnknownKind:
        raise _not_delivered() from None


async def _own(state: ServerState, webhook_id: str, owner: str, is_admin: bool) -> Webhook:
    """Return a webhook of `owner`, or any for operators; others look as if they did not exist."""
    webhook = await find_webhook(state, webhook_id)
    if not is_admin and webhook.owner != owner:
        raise forbidden()
    return webhook


def _not_delivered() -> ApiError:
    line = "Webhooks are not delivered here: no app of this server does that."
    return ApiError(ErrorCode.INVALID_STATE, line)


async def _record(
    request: Request, operator: Operator | None, owner: str, what: str, webhook: Webhook
) -> None:
    """Write to the audit log what an operator did with another's webhook, or one for all owners."""
    if operator is not None and webhook.owner != owner:
        detail = {"url": webhook.url}
        await record_change(request, operator, f"webhooks.{what}", webhook.id, detail)


def _shown(webhook: Webhook) -> WebhookOut:
    return WebhookOut.model_validate(webhook)


def _delivery(delivery: WebhookDelivery) -> DeliveryOut:
    return DeliveryOut.model_validate(delivery)
