"""Hand messages to the engine as jobs: the embedded default, where there is no broker."""

import json
from collections.abc import Mapping
from typing import Any

from holdfast.jobs.client.client import Client
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.stored_arguments import decode_arguments
from holdfast.jobs.declare.validation import PayloadTooLarge, ValidationError
from holdfast.jobs.exceptions import UnknownKind
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.outbox.model import MessageClaim
from holdfast.outbox.ports import MessageRefused, PublisherUnavailable
from holdfast.trace_port import trace_headers

OWNER = "owner"
"""The header of a message that names the owner of its job."""


class JobPublisher:
    """Implements `Publisher`: each message becomes a job with the message's id.

    A message that comes again finds its job, so it is run once for as long as that job is kept.
    The owner that its header `owner` names is the job's, so that owners take turns.

    Args:
        client: enqueues, usually the engine whose outbox is relayed.
        jobs: the job for each type of message, or the name of its kind; its arguments are the
            message's payload.
    """

    def __init__(self, client: Client, jobs: Mapping[str, JobFunction[Any, Any] | str]) -> None:
        self._client = client
        self._jobs = dict(jobs)

    async def open(self) -> None:
        """Do nothing: the engine is open."""

    async def close(self) -> None:
        """Do nothing: the engine is closed by its owner."""

    async def publish(self, message: MessageClaim) -> None:
        """Enqueue the job for a message.

        Raises:
            MessageRefused: there is no job for its type, or the job does not take its payload.
            PublisherUnavailable: the store does not answer.
        """
        job = self._jobs.get(message.message_type)
        if job is None:
            raise MessageRefused(f"no job takes messages of type {message.message_type!r}")
        name = job.kind.name if isinstance(job, JobFunction) else job
        try:
            args = decode_arguments(self._client.registry.kind(name), message.payload)
            traced = trace_headers(message.headers).as_dict() or None
            # The message was accepted, so a limit of its owner no longer refuses its job.
            await self._client.enqueue(
                name, args, id=message.id, owner=_owner_of(message), meta=traced, beyond_limits=True
            )
        except (UnknownKind, ValidationError, PayloadTooLarge) as error:
            raise MessageRefused(str(error)) from error
        except StoreUnavailable as error:
            raise PublisherUnavailable(str(error)) from error


def _owner_of(message: MessageClaim) -> str | None:
    owner = None if message.headers is None else json.loads(message.headers).get(OWNER)
    return owner if isinstance(owner, str) and owner else None
