"""Add messages in the caller's own transaction, and look after those that could not be published.

async with connection.transaction():
    await connection.execute("INSERT INTO orders ...")
    await engine.outbox.add(connection, "order-7", "order.placed", {"order": 7})
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.ids import new_ids
from holdfast.outbox.model import (
    Backlog,
    MessageDraft,
    MessagePage,
    MessageStatus,
    NewMessage,
    OutboxMessage,
)
from holdfast.outbox.ports import OutboxStore
from holdfast.trace_port import Tracing, with_trace

PAYLOAD_LIMIT = 1024 * 1024
"""Most bytes of JSON in one message: brokers are built for many small ones."""
LONGEST_NAME = 200
LONGEST_DELAY = 3650 * 86_400.0
"""Seconds that a message may be delayed."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class BadMessage(HoldfastError, ValueError):
    """A message cannot be stored or published."""

    code = ErrorCode.VALIDATION_ERROR


class UnknownMessage(HoldfastError, LookupError):
    """There is no message with this id."""

    code = ErrorCode.FORBIDDEN

    def __init__(self, message_id: str) -> None:
        super().__init__(f"the outbox has no message {message_id!r}")
        self.message_id = message_id


class MessageNotFailed(HoldfastError):
    """Only a failed message can be requeued or discarded."""

    code = ErrorCode.INVALID_STATE

    def __init__(self, message: OutboxMessage) -> None:
        super().__init__(f"message {message.id} is {message.status}, not failed")
        self.message = message


class Outbox:
    """Add, list, requeue and discard messages; `engine.outbox`."""

    def __init__(self, store: OutboxStore, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock
        self.tracing: Tracing | None = None

    async def add(
        self,
        connection: object,
        aggregate_id: str,
        message_type: str,
        payload: Any,
        *,
        headers: Mapping[str, Any] | None = None,
        delay: float = 0.0,
    ) -> str:
        """Add a message to the transaction of `connection`, and return its id.

        It is published once that transaction has committed, and never if it is rolled back. The
        messages of one aggregate are published in the order of their transactions, each one after
        the one before it was confirmed.

        Args:
            connection: the caller's connection or session, of the types that `Engine.enqueue` takes
                as `connection=`.
            aggregate_id: what the message speaks of, such as the id of an order.
            message_type: what it says, such as `order.placed`; for RabbitMQ by default the name of
                the queue.
            payload: the body, which must be JSON: also a dataclass, a msgspec Struct or a Pydantic
                model.
            headers: sent beside the body; for RabbitMQ the AMQP headers.
            delay: seconds after which it is published at the earliest. Until then it waits in the
                database and holds back no other message.

        Raises:
            BadMessage: a name, the payload, a header or the delay cannot be stored.
            TypeError: the store does not support this type of `connection`.
            ValueError: the connection has no open transaction.
        """
        (identifier,) = new_ids(1, self._clock.wall())
        message = new_message(
            identifier, aggregate_id, message_type, payload, headers=headers, delay=delay
        )
        await self._add(connection, [message])
        return identifier

    async def add_many(
        self, connection: object, messages: "list[tuple[str, str, Any]]"
    ) -> tuple[str, ...]:
        """Add several messages, each as `(aggregate_id, message_type, payload)`; see `add`."""
        ids = new_ids(len(messages), self._clock.wall())
        new = [
            new_message(identifier, *message)
            for identifier, message in zip(ids, messages, strict=True)
        ]
        if new:
            await self._add(connection, new)
        return tuple(ids)

    async def _add(self, connection: object, messages: Sequence[NewMessage]) -> None:
        if self.tracing is None:
            await self._store.add_on(connection, messages)
            return
        with self.tracing.sending(messages[0].message_type, len(messages)) as headers:
            await self._store.add_on(connection, traced(messages, headers))

    async def get(self, message_id: str) -> OutboxMessage | None:
        """Return one message, or None."""
        return None if _UNSTORABLE.search(message_id) else await self._store.get(message_id)

    async def list(
        self, status: MessageStatus | None = None, *, cursor: str | None = None, limit: int = 50
    ) -> MessagePage:
        """Return messages, newest first; `status` leaves out the others.

        Raises:
            ValueError: `cursor` is not the `next_cursor` of such a page.
        """
        return await self._store.list(status, cursor=cursor, limit=limit)

    async def requeue(self, message_id: str) -> OutboxMessage:
        """Let a failed message be published after all, with a fresh number of tries.

        Raises:
            UnknownMessage: there is none.
            MessageNotFailed: it is pending or published.
        """
        message = await self._known(message_id)
        if not await self._store.requeue(message_id):
            raise MessageNotFailed(message)
        return await self._known(message_id)

    async def discard(self, message_id: str) -> OutboxMessage:
        """Delete a failed message for good, and return it as it was.

        Raises:
            UnknownMessage: there is none.
            MessageNotFailed: it is pending or published.
        """
        message = await self._known(message_id)
        if not await self._store.discard(message_id):
            raise MessageNotFailed(message)
        return message

    async def erase(self, connection: object, aggregate_ids: Sequence[str]) -> int:
        """Delete all messages of aggregates in the transaction of `connection`; return how many.

        One that a relay has claimed may be published all the same.

        Raises:
            TypeError: the store does not support this type of `connection`.
            ValueError: the connection has no open transaction.
        """
        return await self._store.erase_on(connection, aggregate_ids)

    async def backlog(self) -> Backlog:
        """Return how many messages are pending and failed, and the age of the oldest pending."""
        return await self._store.backlog()

    async def _known(self, message_id: str) -> OutboxMessage:
        message = await self.get(message_id)
        if message is None:
            raise UnknownMessage(message_id)
        return message


def new_message(
    identifier: str,
    aggregate_id: str,
    message_type: str,
    payload: Any,
    *,
    headers: Mapping[str, Any] | None = None,
    delay: float = 0.0,
) -> NewMessage:
    """Return a message to store; see `Outbox.add`.

    Raises:
        BadMessage: it cannot be stored.
    """
    if (
        isinstance(delay, bool)
        or not isinstance(delay, int | float)
        or not 0 <= delay <= LONGEST_DELAY
    ):
        raise BadMessage(f"delay must be between 0 and {LONGEST_DELAY:g} seconds, got {delay!r}")
    return NewMessage(
        identifier,
        checked_name("aggregate_id", aggregate_id),
        checked_name("message_type", message_type),
        _encoded(payload),
        None if headers is None else _encoded(dict(headers)),
        float(delay),
    )


def traced(messages: Sequence[NewMessage], headers: Mapping[str, str]) -> list[NewMessage]:
    """Return `messages` with the headers of their trace."""
    return [replace(each, headers=with_trace(each.headers, headers)) for each in messages]


def drafted_message(identifier: str, draft: MessageDraft) -> NewMessage:
    """Return a message to store, as `draft` says.

    Raises:
        BadMessage: it cannot be stored.
    """
    return new_message(
        identifier,
        draft.aggregate_id,
        draft.message_type,
        draft.payload,
        headers=draft.headers,
        delay=draft.delay,
    )


def checked_name(field: str, text: object) -> str:
    """Return `text` if a store can keep it as a name.

    Raises:
        BadMessage: it is not a text of 1 to 200 characters, or holds one that cannot be stored.
    """
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_NAME:
        raise BadMessage(f"{field} must be a text of 1 to {LONGEST_NAME} characters, got {text!r}")
    if _UNSTORABLE.search(text):
        raise BadMessage(f"{field} holds a character that cannot be stored: {text!r}")
    return text


def _encoded(payload: Any) -> str:
    try:
        text = _ENCODER.encode(payload)
    except (TypeError, ValueError) as error:
        raise BadMessage(f"the payload is not JSON: {error}") from error
    if len(text) > PAYLOAD_LIMIT:
        raise BadMessage(
            f"the payload has {len(text)} bytes of JSON, more than {PAYLOAD_LIMIT}: store large "
            "data elsewhere and send its name"
        )
    return text.decode()


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # of a Pydantic model
    if dump is None:
        raise TypeError(f"a {type(value).__name__} cannot be sent")
    return dump(mode="json")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
