"""Beside publishing: warn of messages that wait too long, and delete what is old."""

import logging

from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.outbox.options import RelayOptions
from holdfast.outbox.ports import InboxStore, OutboxStore

_log = logging.getLogger("holdfast.relay")

_PAGE = 500


class Upkeep:
    """Look after the outbox, and after the inbox if there is one, at intervals."""

    def __init__(
        self, outbox: OutboxStore, inbox: InboxStore | None, options: RelayOptions, clock: Clock
    ) -> None:
        self._outbox = outbox
        self._inbox = inbox
        self._options = options
        self._clock = clock
        self._warned_at: float | None = None

    async def run(self) -> None:
        """Look after it until cancelled; a store that does not answer is asked again later."""
        tidy_at = self._clock.monotonic()
        while True:
            try:
                await self.warn_of_lag()
                if self._clock.monotonic() >= tidy_at:
                    tidy_at = self._clock.monotonic() + self._options.tidy_every
                    await self.tidy()
            except HoldfastError as error:
                _log.debug("the outbox could not be looked after: %s", error)
            except Exception:
                # Such as one of a driver: nothing starts this again while the relay publishes.
                _log.exception("the outbox could not be looked after")
            await self._clock.sleep_async(self._options.poll_interval)

    async def warn_of_lag(self) -> None:
        """Log a warning while the oldest message is too old, once per `stale_after`."""
        backlog = await self._outbox.backlog()
        now, stale_after = self._clock.monotonic(), self._options.stale_after
        if backlog.lag < stale_after:
            self._warned_at = None
        elif self._warned_at is None or now - self._warned_at >= stale_after:
            self._warned_at = now
            _log.warning(
                "the outbox lags: %d messages are pending, the oldest for %.0f s",
                backlog.pending, backlog.lag,
            )  # fmt: skip

    async def tidy(self) -> int:
        """Delete published messages and handled requests that are old enough; return how many."""
        total = 0
        while deleted := await self._outbox.delete_published(
            self._options.keep_published, limit=_PAGE
        ):
            total += deleted
        while self._inbox is not None and (
            deleted := await self._inbox.delete_handled(self._options.keep_handled, limit=_PAGE)
        ):
            total += deleted
        return total
