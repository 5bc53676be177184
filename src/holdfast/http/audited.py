"""The routes of operators: who may call them, and the audit log of what they change."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from holdfast.http.admin import require_admin, require_operator
from holdfast.http.operators import Operator
from holdfast.http.served_app import state_of
from holdfast.jobs.operations_port import AuditEntry

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PREFIXES = ("api", "ops")
_VERBS = {"DELETE": "delete", "PUT": "set"}
"""What a method does to the target at the end of its path."""
_REFUSED = 400
"""Statuses from here on say that nothing was done."""


class OpsRoute(APIRoute):
    """A route for operators: `APIRouter(route_class=OpsRoute)`.

    Every operator may read. What changes something needs a full token, and is written to the
    audit log once it is done: a change that was refused is not. One that fails after `begin_change`
    is written there with the outcome `incomplete`. The path says what was done:
    `POST /api/downstreams/mill/reset` is the action `downstreams.reset` with the target `mill`, and
    `DELETE /api/outbox/m1` is `outbox.delete` with the target `m1`; a `PUT` is `set`.
    `describe_change` adds to it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what handles a request."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            if request.method in _SAFE_METHODS:
                require_operator(request)
                return await handle(request)
            operator = require_admin(request)
            request.state.change = {}
            request.state.change_begun = False
            try:
                response = await handle(request)
            except BaseException:
                if request.state.change_begun:
                    await _record_incomplete(request, operator, self.path_format)
                raise
            if response.status_code < _REFUSED and request.state.change is not None:
                await _record(request, operator, self.path_format)
            return response

        return guarded


def describe_change(request: Request, *, action: str | None = None, **detail: Any) -> None:
    """Add to the entry that the audit log gets for this request.

    Args:
        action: what was done, if the path does not say it.
        detail: values that JSON takes; no secrets.
    """
    change: dict[str, Any] = request.state.change
    change.update(detail)
    if action is not None:
        request.state.change_action = action


def begin_change(request: Request) -> None:
    """Say that from here on a part of the change may be made, also if the request fails."""
    request.state.change_begun = True


def changed_nothing(request: Request) -> None:
    """Keep this request out of the audit log: it only looked, as a dry run does."""
    request.state.change = None
    request.state.change_begun = False


async def entry_of_change(request: Request) -> AuditEntry:
    """Return the entry of this request, for a change that is stored with it in one transaction.

    It is not written once more after the request.
    """
    template = request.scope["route"].path_format
    action, target = described(request.method, template, request.path_params)
    entry = await audit_entry(request, require_admin(request), action, target, request.state.change)
    changed_nothing(request)
    return entry


async def audit_entry(
    request: Request, operator: Operator, action: str, target: str, detail: dict[str, Any]
) -> AuditEntry:
    """Return the entry of what `operator` changes."""
    return await state_of(request).engine.audit.entry(
        action, target, who=operator.name, role=operator.role, detail=detail
    )


async def _record(request: Request, operator: Operator, template: str) -> None:
    action, target = described(request.method, template, request.path_params)
    action = getattr(request.state, "change_action", action)
    await record_change(request, operator, action, target, request.state.change)


async def _record_incomplete(request: Request, operator: Operator, template: str) -> None:
    describe_change(request, outcome="incomplete")
    # The audit log has logged it; the caller's answer must say why the change itself failed.
    with contextlib.suppress(Exception):
        await _record(request, operator, template)


async def record_change(
    request: Request, operator: Operator, action: str, target: str, detail: dict[str, Any]
) -> None:
    """Write to the audit log what `operator` has changed; `OpsRoute` does it by itself."""
    await state_of(request).engine.audit.record(
        action, target, who=operator.name, role=operator.role, detail=detail
    )


def described(method: str, template: str, values: dict[str, Any]) -> tuple[str, str]:
    """Return the action and the target of a change, by the path of its route."""
    parts = [part for part in template.split("/") if part]
    while parts and parts[0] in _PREFIXES:
        parts = parts[1:]
    verb = _VERBS.get(method)
    if verb is None:
        verb = parts.pop()
        if verb.startswith("{"):
            verb = str(values[verb[1:-1]])
    names = [part for part in parts if not part.startswith("{")]
    targets = [str(values[part[1:-1]]) for part in parts if part.startswith("{")]
    return ".".join([*names, verb]), "/".join(targets)
