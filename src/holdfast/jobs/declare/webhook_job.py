"""The job that notifies a webhook: one for each message, with an id of its own."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.history import JobEvent
from holdfast.jobs.model import NewJob
from holdfast.jobs.owner_limits import DELIVERIES
from holdfast.jobs.webhook_port import Webhook

APP = "holdfast-webhooks"
"""Named so that no app of a user is called the same."""
KIND = f"{APP}.deliver"
"""The kind of the jobs that deliver, which an app of this name declares."""


@dataclass(frozen=True, slots=True)
class DeliveryArgs:
    """What to send: `body`, as JSON text, to the webhook; `host` is that of its address."""

    webhook_id: str
    host: str
    body: str


def log_owner(webhook_id: str) -> str:
    """Return the owner of a webhook's deliveries, by which they are listed and share places.

    No session and no API key has such an owner, so no owner finds them among their own jobs.
    """
    return f"{DELIVERIES}{webhook_id}"


def message_of(event: JobEvent) -> dict[str, Any]:
    """Return the message about the end of a job."""
    return {
        "type": f"job.{event.name}",
        "timestamp": utc(event.at),
        "data": {
            "job": {
                "id": event.job_id,
                "kind": event.kind,
                "status": str(event.name),
                "attemptCount": event.attempt,
                "error": None if event.error_code is None else {"code": event.error_code},
            }
        },
    }


def delivery_job(kind: JobKind, webhook: Webhook, job_id: str, message: dict[str, Any]) -> NewJob:
    """Return the job that sends `message` to `webhook`; the same id again is the same job."""
    args = DeliveryArgs(webhook.id, host_of(webhook.url), json.dumps(message))
    subject = message["data"].get("job", {}).get("id")
    return NewJob(
        job_id,
        kind.name,
        kind.queue,
        kind.handler.arguments.encode(args),
        downstream=None if kind.downstream is None else kind.downstream.name_for(args),
        max_attempts=kind.policy.max_attempts,
        owner=log_owner(webhook.id),
        meta=json.dumps({"event": message["type"], "jobId": subject}),
    )


def host_of(url: str) -> str:
    """Return the host of an address, with its port if it has one."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def utc(at: float) -> str:
    """Return epoch seconds as ISO 8601 in UTC."""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
