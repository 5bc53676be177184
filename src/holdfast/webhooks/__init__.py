"""Deliver webhooks: signed as Standard Webhooks says, by durable jobs, through a guarded sender.

`engine.webhooks` adds and removes them. Workers deliver if `webhooks_app` is among the apps of
their engine; `holdfast serve` and `holdfast worker` add it by themselves.
"""

from holdfast.webhooks.delivery import DELIVERY_ERRORS, Answer, Sender, webhooks_app
from holdfast.webhooks.signing import sign

__all__ = ["DELIVERY_ERRORS", "Answer", "Sender", "sign", "webhooks_app"]
