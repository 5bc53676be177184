"""Sign a message as Standard Webhooks says, version 1: HMAC-SHA256 over `id.timestamp.body`."""

import base64
import hashlib
import hmac

from holdfast.jobs.client.webhook_control import WHSEC


def sign(secret: str, message_id: str, timestamp: int, body: str) -> dict[str, str]:
    """Return the headers that prove to a receiver who sent `body`, and when.

    Args:
        secret: `whsec_` and the key in base64.
        message_id: the same for every attempt to deliver the message.
        timestamp: epoch seconds of this attempt.
        body: what is sent.
    """
    key = base64.b64decode(secret.removeprefix(WHSEC))
    signed = f"{message_id}.{timestamp}.{body}".encode()
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
