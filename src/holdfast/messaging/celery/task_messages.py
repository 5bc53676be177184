"""Celery messages as messages of the outbox: the next attempt of a task, and its dead letter."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from celery import Celery
from celery.utils.functional import maybe_list
from kombu.entity import Queue
from kombu.utils.json import dumps
from kombu.utils.uuid import uuid

from holdfast.messaging.dead_letter_queue import ROUND
from holdfast.outbox.model import MessageDraft

_PUBLISHING = 30.0
"""Seconds that the broker may take to confirm a large message."""
_DEFAULT = ""
"""The exchange that leads to the queue that the routing key names."""
_COUNT = "x-delivery-count"
"""The header of a quorum queue; a copy of the message must not have it."""
_OF_THE_MESSAGE = frozenset({
    "chain", "chord", "expires", "group_id", "group_index", "headers", "ignore_result", "link",
    "link_error", "parent_id", "replaced_task_nesting", "reply_to", "retries", "root_id", "shadow",
    "soft_time_limit", "stamped_headers", "time_limit",
})  # fmt: skip
_OF_PUBLISHING = frozenset({
    "add_to_parent", "compression", "connection", "delivery_mode", "immediate", "mandatory",
    "producer", "publisher", "retry", "retry_policy", "router", "serializer",
})  # fmt: skip
"""Options of `apply_async` that the relay decides for messages of the outbox."""


def queue_of(task: Any) -> str:
    """Return the name of the queue that the running delivery of `task` came from."""
    info = task.request.delivery_info or {}
    exchange, key = info.get("exchange") or _DEFAULT, info.get("routing_key") or ""
    if exchange == _DEFAULT and key:
        return str(key)
    queues = task.app.amqp.queues.values()
    found = (q.name for q in queues if (q.exchange.name, q.routing_key) == (exchange, key))
    return next(found, None) or default_queue_of(task)


def default_queue_of(task: Any) -> str:
    """Return the name of the queue that `task` is sent to by its options and the app's routes."""
    if getattr(task, "queue", None):
        return str(task.queue)
    return str(task.app.amqp.router.route({}, task.name)["queue"].name)


def new_call(
    task: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    task_id: str | None,
    options: Mapping[str, Any] | None = None,
) -> tuple[str, msgspec.Raw, dict[str, Any]]:
    """Return the id, the body and the headers of a message that calls `task`.

    Args:
        options: of `apply_async`, see `check_options`.
    """
    identifier = task_id or uuid()
    given = dict(options or {})
    own = {
        "ignore_result": bool(task.ignore_result),
        "time_limit": task.time_limit,
        "soft_time_limit": task.soft_time_limit,
        "expires": task.expires,
        "callbacks": maybe_list(given.pop("link", None)),
        "errbacks": maybe_list(given.pop("link_error", None)),
    }
    custom = given.pop("headers", None) or {}
    message = task.app.amqp.as_task_v2(
        identifier, task.name, tuple(args), dict(kwargs), **{**own, **given}
    )
    return identifier, _encoded(message.body), _headers(message, custom)


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `options`, given to `apply_async`, that are part of a task's message.

    Raises:
        TypeError: an option cannot be kept in the outbox.
    """
    part = {*_OF_THE_MESSAGE, *(options.get("stamped_headers") or ())}
    unknown = sorted(options.keys() - part - _OF_PUBLISHING)
    if unknown:
        raise TypeError(
            f"a call with countdown or eta is kept in the outbox, which has no {unknown[0]!r}; "
            "leave it out, or send the call without countdown and eta"
        )
    return {name: value for name, value in options.items() if name in part}


def deliveries_before(task: Any) -> int:
    """Return how often the running message of `task` came before, as its quorum queue counts.

    0 where its queue does not count.
    """
    found = (task.request.headers or {}).get(_COUNT)
    return found if isinstance(found, int) and found > 0 else 0


def same_message(task: Any) -> MessageDraft:
    """Return a copy of the message that the running delivery of `task` came with."""
    body, headers = _running_message(task, task.request.retries)
    return MessageDraft(str(task.request.id), queue_of(task), body, headers)


def next_message(
    task: Any, *, aggregate_id: str, round_: int, retries: int, delay: float = 0.0
) -> MessageDraft:
    """Return the message that replaces the one that the running delivery of `task` came with.

    Args:
        retries: what `self.request.retries` is to be when it comes.
        delay: seconds after which it is published.
    """
    body, headers = _running_message(task, retries)
    headers[ROUND] = round_
    return MessageDraft(aggregate_id, queue_of(task), body, headers, delay)


def dead_letter(
    task: Any, *, aggregate_id: str, queue: str, round_: int, about: Mapping[str, Any]
) -> MessageDraft:
    """Return the dead letter for the running delivery of `task`: its body as it is, and `about`."""
    body, headers = _running_message(task, 0)
    headers |= {**about, "originalQueue": queue_of(task), ROUND: round_}
    return MessageDraft(aggregate_id, queue, body, headers)


def ensure_queue(app: Celery, name: str) -> None:
    """Declare a durable queue unless there is one of this name, of any kind.

    Raises:
        Exception: the broker does not answer, or refuses.
    """
    with app.connection_for_write() as connection:
        queue: Any = Queue
        try:
            queue(name, channel=connection.channel()).queue_declare(passive=True)
        except connection.channel_errors:
            queue(name, channel=connection.channel(), durable=True).queue_declare()


def publish_now(app: Celery, letter: MessageDraft) -> None:
    """Publish `letter`, which the outbox cannot take, and return once the broker confirmed it.

    Raises:
        Exception: the broker does not answer, or refuses, or has no such queue.
    """
    headers = dict(letter.headers or {})
    properties = {name: headers.pop(name, None) for name in ("correlation_id", "reply_to")}
    confirmed = {"confirm_publish": True}
    with app.connection_for_write(transport_options=confirmed) as connection:
        connection.Producer().publish(
            bytes(letter.payload),
            routing_key=letter.message_type,
            headers=headers,
            content_type="application/json",
            content_encoding="utf-8",
            mandatory=True,
            timeout=_PUBLISHING,
            delivery_mode="persistent",
            message_id=uuid(),
            **{name: value for name, value in properties.items() if value},
        )


def _running_message(task: Any, retries: int) -> tuple[msgspec.Raw, dict[str, Any]]:
    request = task.request
    options = request.as_execution_options()
    custom = {name: value for name, value in options.pop("headers").items() if name != _COUNT}
    message = task.app.amqp.as_task_v2(
        options.pop("task_id"), task.name, request.args, request.kwargs,
        callbacks=options.pop("link"), errbacks=options.pop("link_error"),
        ignore_result=bool(request.ignore_result), **{**options, "retries": retries},
    )  # fmt: skip
    return _encoded(message.body), _headers(message, custom)


def _encoded(body: Any) -> msgspec.Raw:
    # By Celery's own encoder, which also knows dates, UUIDs and signatures.
    return msgspec.Raw(str(dumps(body)).encode())  # type: ignore[no-untyped-call]  # of kombu


def _headers(message: Any, custom: Mapping[str, Any]) -> dict[str, Any]:
    properties = {name: value for name, value in message.properties.items() if value}
    return {**custom, **message.headers, **properties}
