"""Publish the messages of one claim together, those of one aggregate one after the other."""

import asyncio
import logging
from collections.abc import Sequence
from random import Random

from holdfast.clock import Clock
from holdfast.outbox.model import MessageClaim, MessageReport, MessageStatus
from holdfast.outbox.options import RelayOptions
from holdfast.outbox.ports import (
    MessageRefused,
    MessageUnconfirmed,
    Publisher,
    PublisherUnavailable,
)

_log = logging.getLogger("holdfast.relay")

_LONGEST_ERROR = 500


class Batch:
    """Claimed messages and what became of each; until it is known, a message is released.

    Attributes:
        outage: why the publisher takes no more messages; None while it does.
        published: how many messages were confirmed.
        on_their_way: those that are being published, by id.
    """

    def __init__(self, claims: Sequence[MessageClaim] = ()) -> None:
        self.outage: PublisherUnavailable | None = None
        self.published = 0
        self.on_their_way: dict[str, MessageClaim] = {}
        self._reports = {claim.id: _report(claim, MessageStatus.PENDING) for claim in claims}
        self.by_aggregate: dict[str, list[MessageClaim]] = {}
        for claim in claims:
            self.by_aggregate.setdefault(claim.aggregate_id, []).append(claim)

    @property
    def reports(self) -> tuple[MessageReport, ...]:
        """One report for each message."""
        return tuple(self._reports.values())

    def settle(self, report: MessageReport) -> None:
        """Note what became of a message."""
        self._reports[report.id] = report
        self.published += report.status is MessageStatus.PUBLISHED


class BatchPublisher:
    """Publish batches, and decide what each failure means for its message."""

    def __init__(
        self, publisher: Publisher, options: RelayOptions, clock: Clock, rng: Random
    ) -> None:
        self._publisher = publisher
        self._options = options
        self._clock = clock
        self._rng = rng
        # The lease must outlast the start of the last message and the wait for its confirm.
        self._seconds = options.lease_seconds / 3

    async def publish(self, batch: Batch, claimed_at: float) -> None:
        """Publish what can be published; `batch` then says what became of each message.

        Args:
            claimed_at: when the leases began at the earliest, in seconds of the monotonic clock.
        """
        until = claimed_at + self._seconds
        groups = batch.by_aggregate.values()
        left = until + self._seconds - self._clock.monotonic()
        try:
            async with asyncio.timeout(left):
                await asyncio.gather(*(self._publish_in_order(batch, g, until) for g in groups))
        except TimeoutError:
            for claim in batch.on_their_way.values():
                batch.settle(self._later(claim, "not confirmed in time"))

    async def _publish_in_order(
        self, batch: Batch, claims: Sequence[MessageClaim], until: float
    ) -> None:
        for claim in claims:
            if batch.outage is not None or self._clock.monotonic() >= until:
                return
            report = await self._publish_one(batch, claim)
            del batch.on_their_way[claim.id]
            if report is None:
                return
            batch.settle(report)
            if report.status is MessageStatus.PENDING:
                return  # the next ones of its aggregate must not overtake it

    async def _publish_one(self, batch: Batch, claim: MessageClaim) -> MessageReport | None:
        """Return what became of a message; None where the publisher is out of order."""
        batch.on_their_way[claim.id] = claim
        try:
            await self._publisher.publish(claim)
        except PublisherUnavailable as error:
            batch.outage = error
            return None
        except (MessageUnconfirmed, TimeoutError) as error:
            return self._later(claim, f"not confirmed in time {error}".rstrip())
        except MessageRefused as error:
            return self._refused(claim, str(error))
        except Exception as error:
            # A publisher's own bug must stop neither the relay nor the other messages.
            _log.exception("publishing message %s failed", claim.id)
            return self._refused(claim, repr(error))
        return _report(claim, MessageStatus.PUBLISHED)

    def _refused(self, claim: MessageClaim, error: str) -> MessageReport:
        if claim.retry_count + 1 < self._options.max_attempts:
            return self._later(claim, error)
        _log.error(
            "message %s (%s of %s) failed after %d attempts: %s; requeue or discard it",
            claim.id, claim.message_type, claim.aggregate_id, claim.retry_count + 1, error,
        )  # fmt: skip
        return _report(claim, MessageStatus.FAILED, error)

    def _later(self, claim: MessageClaim, error: str) -> MessageReport:
        delay = self._options.backoff.delay(claim.retry_count + 1, self._rng)
        return _report(claim, MessageStatus.PENDING, error, delay)


def _report(
    claim: MessageClaim, status: MessageStatus, error: str | None = None, delay: float = 0.0
) -> MessageReport:
    shown = None if error is None else error[:_LONGEST_ERROR] or "no reason was given"
    return MessageReport(claim.id, claim.token, status, shown, delay)
