"""The app whose jobs deliver webhooks."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import Category, ErrorInfo, HoldfastError
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.retention import Retention
from holdfast.jobs.declare.webhook_job import APP, DeliveryArgs
from holdfast.jobs.webhook_port import WebhookStore
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy
from holdfast.webhooks.signing import sign

NOT_ACCEPTED = "WEBHOOK_NOT_ACCEPTED"
DELIVERY_ERRORS = (
    ErrorInfo(NOT_ACCEPTED, "The receiver did not accept the message.", 502, Category.TRANSIENT),
)
"""The codes that deliveries fail with, beside those of the sender."""

_DAY = 86_400.0
_GONE = 410
_TIMEOUT = 40.0
"""Seconds of one attempt; the sender ends its own call before."""
_CONCURRENCY = 2
"""Messages that one host gets at once, however many webhooks it has."""
_RETRY = RetryPolicy(
    max_attempts=8, backoff=Exponential(base=5, multiplier=6, cap=6 * 3600, jitter=0.2)
)
"""Tries over about fifteen hours: after 5 s, 30 s, 3 min, 18 min, 2 h, then every 6 h."""


class Answer(Protocol):
    """What a receiver answered."""

    @property
    def status(self) -> int:
        """The HTTP status, 200 to 299."""
        ...


class Sender(Protocol):
    """Sends messages; `holdfast.fetch.Fetcher` is one."""

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        read_body: bool = True,
    ) -> Answer:
        """Send `body`; with `read_body` False, return without waiting for the body of the answer.

        Raises:
            HoldfastError: it was not accepted; `status` has what the receiver answered, if it did.
        """
        ...


class NotAccepted(HoldfastError):
    """The receiver answered with a status of 300 to 499, which may be mended on its side."""

    code = NOT_ACCEPTED


def webhooks_app(
    sender: Sender,
    *,
    errors: Iterable[ErrorInfo] = (),
    clock: Clock = SYSTEM_CLOCK,
    retry: RetryPolicy = _RETRY,
) -> App:
    """Return the app that delivers webhooks; give it to the engine beside your own.

    A receiver accepts a message with a status of 200 to 299. Anything else is tried again as
    `retry` says, except 410, which says that the address is gone. A redirect is not followed. What
    can never be sent, such as to an address that is refused, is not tried again. What was never
    accepted stays in the log of its webhook for 30 days, and is no dead letter. Each host has a
    breaker of its own, so one that does not answer holds up no other.

    Args:
        sender: sends the messages, and refuses addresses that may not be called.
        errors: the codes of the sender.
        clock: the time of sending, which is signed with each message.
        retry: how often, and after which waits, a message is tried.
    """
    app = App(APP, errors=[*errors, *DELIVERY_ERRORS])

    @app.job(
        queue=APP,
        retry=retry,
        timeout=_TIMEOUT,
        downstream=Downstream(
            "webhook",
            key=lambda args: args.host,
            # A receiver that answers is up, even if it refuses the message.
            breaker=BreakerPolicy(exclude=(NotAccepted,)),
            concurrency=_CONCURRENCY,
        ),
        retention=Retention(complete_for=7 * _DAY, failed_for=30 * _DAY),
        # A receiver that does not accept is its owner's to mend, who finds it in the log.
        dead_letters=False,
    )
    async def deliver(ctx: JobContext, args: DeliveryArgs) -> int | None:
        """Send a message and return the answer's status; None where the webhook was removed."""
        store: WebhookStore = ctx.engine.store
        webhook = await store.webhook(args.webhook_id)
        if webhook is None:
            return None
        signed = sign(webhook.secret, ctx.job_id, int(clock.wall()), args.body)
        headers = {"Content-Type": "application/json", **signed}
        try:
            # The status says all: a body that is slow or cut must not send the message again.
            body = args.body.encode()
            answer = await sender.post(webhook.url, body, headers, read_body=False)
        except HoldfastError as error:
            ctx.http_status = status = getattr(error, "status", None)
            if status is None or status == _GONE or not 300 <= status < 500:
                raise
            raise NotAccepted(f"The receiver answered with HTTP {status}.") from error
        ctx.http_status = answer.status
        return answer.status

    return app
