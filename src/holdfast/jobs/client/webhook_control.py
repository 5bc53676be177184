"""Add, list, remove and test webhooks, and read the log of their deliveries."""

import base64
import binascii
import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.clock import Clock
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.ids import new_ids
from holdfast.jobs.declare.declared_downstream import check_name
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.declare.webhook_job import KIND, delivery_job, host_of, log_owner, utc
from holdfast.jobs.model import Job, JobError, JobStatus
from holdfast.jobs.store_port import Store
from holdfast.jobs.views import JobFilter
from holdfast.jobs.webhook_port import ENDS, NewWebhook, Webhook
from holdfast.resilience import checks

WHSEC = "whsec_"
"""How every secret begins, as Standard Webhooks says."""
_SECRET_BYTES = range(24, 65)
"""What Standard Webhooks allows."""
_LONGEST_URL = 2000
_MOST_KINDS = 100


class UnknownWebhook(HoldfastError, LookupError):
    """There is no webhook `webhook_id`."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, webhook_id: str) -> None:
        super().__init__(f"there is no webhook {webhook_id!r}")
        self.webhook_id = webhook_id


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """One message to a webhook, and how far its delivery is.

    Args:
        id: the job that delivers it, and the `webhook-id` that the receiver sees.
        event: such as `job.complete`, or `test`.
        job_id: the job that it speaks of; None for a test.
        status: of the delivery: queued, processing, complete or failed.
        attempts: how often it was tried.
        http_status: what the receiver answered when it accepted it.
        error: why the last attempt failed.
        created_at: epoch seconds.
        finished_at: epoch seconds; None while it is not finished.
    """

    id: str
    event: str
    job_id: str | None
    status: JobStatus
    attempts: int
    http_status: int | None
    error: JobError | None
    created_at: float
    finished_at: float | None


class WebhookControl:
    """Add, list, remove and test webhooks.

    Workers deliver what ends after a webhook was added, at least once, signed as Standard Webhooks,
    if one of their apps does so: `holdfast.webhooks.webhooks_app`. Those of the commands do.
    """

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def add(
        self,
        url: str,
        *,
        owner: str | None = None,
        kinds: Collection[str] | None = None,
        events: Collection[str] = ENDS,
        secret: str | None = None,
    ) -> Webhook:
        """Notify `url` when jobs end, from now on.

        Args:
            url: http or https; private addresses are refused when it is called.
            owner: whose jobs; None for those of all.
            kinds: which kinds of jobs; None for all.
            events: some of `complete`, `failed` and `cancelled`.
            secret: signs what is sent: `whsec_` and 24 to 64 bytes in base64; None makes one.

        Returns:
            The webhook with its secret, which the receiver needs to check what it gets.

        Raises:
            ValueError: a value cannot be used; the message says which.
        """
        _check_url(url)
        chosen = tuple(dict.fromkeys(map(str, events)))
        if not chosen or not set(chosen) <= set(ENDS):
            raise ValueError(f"events must be some of {', '.join(ENDS)}, got {list(events)}")
        if kinds is not None:
            _check_kinds(kinds)
        if owner is not None:
            checks.label("owner", owner)
        webhook = NewWebhook(
            id=secrets.token_hex(8),
            url=url,
            owner=owner,
            kinds=None if kinds is None else tuple(dict.fromkeys(kinds)),
            events=chosen,
            secret=_new_secret() if secret is None else _checked_secret(secret),
        )
        return await self._store.add_webhook(webhook)

    async def list(self, owner: str | None = None) -> tuple[Webhook, ...]:
        """Return the webhooks of `owner`, or all of them, oldest first."""
        return await self._store.webhooks(owner)

    async def newest(self, *, limit: int = 100) -> tuple[Webhook, ...]:
        """Return up to `limit` webhooks of all owners, newest first."""
        return await self._store.newest_webhooks(limit)

    async def get(self, webhook_id: str) -> Webhook:
        """Return one webhook.

        Raises:
            UnknownWebhook: there is none.
        """
        found = await self._store.webhook(webhook_id)
        if found is None:
            raise UnknownWebhook(webhook_id)
        return found

    async def remove(self, webhook_id: str) -> None:
        """Stop notifying a webhook; deliveries that wait end without being sent.

        Raises:
            UnknownWebhook: there is none.
        """
        if not await self._store.remove_webhook(webhook_id):
            raise UnknownWebhook(webhook_id)

    async def test(self, webhook_id: str) -> str:
        """Send a message of the type `test`; return the id of its delivery.

        Raises:
            UnknownWebhook: there is none.
            UnknownKind: no app of this engine delivers webhooks.
        """
        webhook, kind = await self.get(webhook_id), self._registry.kind(KIND)
        now = self._clock.wall()
        message = {"type": "test", "timestamp": utc(now), "data": {}}
        (delivery_id,) = new_ids(1, now)
        job = delivery_job(kind, webhook, f"wh-{webhook.id}-{delivery_id}", message)
        if kind.downstream is not None and job.downstream is not None:
            await self._store.declare_downstreams([kind.downstream.settings(job.downstream)])
        await self._store.enqueue([job])
        return job.id

    async def deliveries(self, webhook_id: str, *, limit: int = 50) -> tuple[WebhookDelivery, ...]:
        """Return the newest deliveries of a webhook, newest first, also of one that was removed.

        Successful ones are kept for a week, failed ones for 30 days.
        """
        checks.whole("limit", limit, at_least=1, at_most=1000)
        where = JobFilter(kinds=(KIND,), owner=log_owner(webhook_id))
        page = await self._store.list_jobs(where, limit=limit)
        return tuple([await self._delivery(job) for job in page.jobs])

    async def _delivery(self, job: Job) -> WebhookDelivery:
        meta = json.loads(job.meta or "{}")
        attempts = await self._store.attempts(job.id)
        errors = [attempt.error for attempt in attempts if attempt.error is not None]
        complete = job.status is JobStatus.COMPLETE
        return WebhookDelivery(
            id=job.id,
            event=meta["event"],
            job_id=meta["jobId"],
            status=job.status,
            attempts=job.attempt_count,
            http_status=json.loads(job.result) if complete and job.result else None,
            error=errors[-1] if errors and not complete else None,
            created_at=job.created_at,
            finished_at=job.finished_at,
        )


def _check_url(url: str) -> None:
    checks.label("url", url)
    if not _is_usable(url):
        raise ValueError(
            "url must be an http or https address without a user name and without spaces, such as "
            f"https://example.org/hooks, of at most {_LONGEST_URL} characters"
        )


def _is_usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        # The host is the key of the downstream that the deliveries call.
        check_name("host", host_of(url))
    except ValueError:
        return False
    scheme_fits = parts.scheme in {"http", "https"}
    is_one_word = url.isprintable() and " " not in url
    return named and scheme_fits and len(url) <= _LONGEST_URL and is_one_word


def _check_kinds(kinds: Collection[str]) -> None:
    if isinstance(kinds, str) or not 0 < len(kinds) <= _MOST_KINDS:
        raise ValueError(f"kinds must be 1 to {_MOST_KINDS} names of kinds, got {kinds!r}")
    for kind in kinds:
        checks.label("kinds", kind)


def _new_secret() -> str:
    return WHSEC + base64.b64encode(secrets.token_bytes(_SECRET_BYTES.start)).decode()


def _checked_secret(secret: str) -> str:
    try:
        size = len(base64.b64decode(secret.removeprefix(WHSEC), validate=True))
    except (binascii.Error, ValueError, AttributeError):
        size = 0
    if not str(secret).startswith(WHSEC) or size not in _SECRET_BYTES:
        raise ValueError("secret must be 'whsec_' and 24 to 64 bytes in base64")
    return secret
