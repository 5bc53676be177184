"""The relay: publishes the messages of the outbox, and marks them once they are confirmed.

Any number of relays may run. Each claims batches under leases; a message is marked only under the
token of its claim. A relay that dies between publishing and marking leaves its messages to another
one, which publishes them again with the same ids when the leases expire. Of an aggregate only one
message is on its way at a time, so a message that is refused is not overtaken by the next one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from random import Random
from typing import Any

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import Category, HoldfastError
from holdfast.outbox.batch import Batch, BatchPublisher
from holdfast.outbox.model import MessageReport, RelayTick
from holdfast.outbox.options import RelayOptions
from holdfast.outbox.ports import (
    InboxStore,
    OutboxStore,
    Publisher,
    PublisherMisconfigured,
    PublisherUnavailable,
)
from holdfast.outbox.upkeep import Upkeep
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.categorize import categorize

_log = logging.getLogger("holdfast.relay")

_OUTAGE_BACKOFF = Exponential(base=0.2, multiplier=2, cap=10.0, jitter=0.2)
_SHORTEST_WAIT = 0.01
_LAST_REPORT_SECONDS = 2.0
_NOTHING = RelayTick((), 0, None, 0)
_BROKER, _STORE = "the receiver of messages", "the store"


class Relay:
    """Publish what is committed until stopped.

    Args:
        outbox: keeps the messages.
        publisher: takes them; opened and closed by `run`.
        options: how it works.
        inbox: tidied too, where given.
        clock: the source of time.
        rng: spreads the delays.
    """

    def __init__(
        self,
        outbox: OutboxStore,
        publisher: Publisher,
        options: RelayOptions | None = None,
        *,
        inbox: InboxStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        rng: Random | None = None,
    ) -> None:
        self._options = options or RelayOptions()
        self._store = outbox
        self._publisher = publisher
        self._clock = clock
        self._rng = rng or Random()
        self._batches = BatchPublisher(publisher, self._options, clock, self._rng)
        self._upkeep = Upkeep(outbox, inbox, self._options, clock)
        self._stopping = asyncio.Event()
        self._failures: dict[str, int] = {}
        self.published = 0
        """Messages that were confirmed since the start."""

    @property
    def waits_for(self) -> str | None:
        """What does not answer at the moment, for people; None while it publishes."""
        return next(iter(self._failures), None)

    def stop(self) -> None:
        """Claim nothing more; `run` returns after the batches that are on their way."""
        self._stopping.set()

    async def run(self, *, until_idle: bool = False) -> None:
        """Publish until `stop` is called, or until nothing can be claimed.

        A broker or a store that does not answer is waited for. When cancelled, messages that were
        not confirmed are released for other relays.

        Raises:
            PublisherMisconfigured: at the start, where waiting does not help.
        """
        lanes: list[asyncio.Task[None]] = []
        upkeep = None
        try:
            outage = await self._connect()
            if isinstance(outage, PublisherMisconfigured):
                raise outage
            if not until_idle:
                upkeep = asyncio.create_task(self._upkeep.run())
            lanes += [
                asyncio.create_task(self._run_lane(until_idle=until_idle))
                for _ in range(self._options.batches)
            ]
            await asyncio.gather(*lanes)
        finally:
            await _cancel([*lanes, *([upkeep] if upkeep is not None else [])])
            await self._publisher.close()

    # -- publishing ----------------------------------------------------------------------------

    async def _run_lane(self, *, until_idle: bool) -> None:
        """Publish one batch after the other; a tick marks the last one and claims the next."""
        batch, tick = Batch(), _NOTHING
        try:
            while not self._stopping.is_set():
                outage = batch.outage
                if outage is None and not batch.reports:  # reports must not wait for a connection
                    outage = await self._connect()
                limit = 0 if outage is not None else self._options.batch_size
                claimed_at = self._clock.monotonic()
                if batch.reports or limit:
                    ticked = await self._tick(batch.reports, limit)
                    if ticked is None:
                        continue
                    tick = ticked
                    batch = Batch(tick.claims)
                if outage is not None:
                    await self._pause(_BROKER, outage)
                elif tick.claims:
                    batch.outage = await self._connect()
                    await self._batches.publish(batch, claimed_at)
                    self._count(batch)
                elif until_idle:
                    return
                else:
                    self._back(_BROKER)
                    await self._wait(tick)
        finally:
            await self._report_last(batch.reports)

    async def _connect(self) -> PublisherUnavailable | None:
        """Connect the publisher; return why that is not possible."""
        try:
            await self._publisher.open()
        except PublisherUnavailable as error:
            return error
        return None

    async def _tick(self, reports: Sequence[MessageReport], limit: int) -> RelayTick | None:
        """Report and claim; None, after a wait, where the store does not answer."""
        asked = asyncio.ensure_future(self._store.tick(reports, limit, self._options.lease_seconds))
        try:
            tick = await asyncio.shield(asked)
        except asyncio.CancelledError:
            await self._release(asked)
            raise
        except HoldfastError as error:
            if categorize(error) is Category.PERMANENT:
                raise
            await self._pause(_STORE, error)
            return None
        self._back(_STORE)
        if tick.refused:
            _log.warning("%d messages were taken over by another relay", tick.refused)
        return tick

    async def _release(self, asked: "asyncio.Future[RelayTick]") -> None:
        """Release what a tick claims whose relay is cancelled meanwhile."""
        with contextlib.suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(_LAST_REPORT_SECONDS):
                await self._report_last(Batch((await asked).claims).reports)

    async def _report_last(self, reports: Sequence[MessageReport]) -> None:
        if not reports:
            return
        try:
            async with asyncio.timeout(_LAST_REPORT_SECONDS):
                await self._store.tick(reports, 0, self._options.lease_seconds)
        except (HoldfastError, TimeoutError) as error:
            _log.warning("%d messages may be published again: %s", len(reports), error)

    def _count(self, batch: Batch) -> None:
        self.published += batch.published
        if batch.published:
            self._back(_BROKER)

    # -- outages and waiting -------------------------------------------------------------------

    async def _pause(self, part: str, error: Exception) -> None:
        failures = self._failures[part] = self._failures.get(part, 0) + 1
        if failures == 1:
            _log.warning("the relay waits for %s: %s", part, error)
        await self._unless_stopped(
            self._clock.sleep_async(_OUTAGE_BACKOFF.delay(failures, self._rng))
        )

    def _back(self, part: str) -> None:
        if self._failures.pop(part, 0):
            _log.warning("%s answers again", part)

    async def _wait(self, tick: RelayTick) -> None:
        """Wait for a hint, for the next retry, or for the next poll."""
        seconds = self._options.poll_interval * (0.9 + 0.2 * self._rng.random())
        if tick.wake_in is not None:
            seconds = min(seconds, max(_SHORTEST_WAIT, tick.wake_in))
        await self._unless_stopped(self._store.wait_for_messages(tick.mark, seconds))

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, object]) -> None:
        """Await `waiting`, at most until the relay is stopped."""
        tasks = [asyncio.create_task(waiting), asyncio.create_task(self._stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(tasks)


async def _cancel(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        if not task.cancelling():  # a second request would interrupt its last report
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
