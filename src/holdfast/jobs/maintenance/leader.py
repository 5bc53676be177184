"""Stand for the leadership of maintenance, and run the services while it is ours."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from random import Random

from holdfast.clock import Clock
from holdfast.events import Listener, notify
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.job_events import LeaderChanged, ServiceRan
from holdfast.jobs.maintenance.deadlines import Deadlines
from holdfast.jobs.maintenance.options import MaintenanceOptions
from holdfast.jobs.maintenance.probes import Probes
from holdfast.jobs.maintenance.rescue import Rescue
from holdfast.jobs.maintenance.retention import RetentionService
from holdfast.jobs.maintenance.service import Service
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import Store, StoreClosed, StoreError
from holdfast.resilience.backoff import Exponential

_log = logging.getLogger("holdfast.maintenance")

LEADERSHIP = "maintenance"
_BACKOFF = Exponential(base=0.5, multiplier=2, cap=10.0, jitter=0.2)


class Maintenance:
    """Do the chores of the fleet while this holder is the leader.

    Args:
        holder: the name under which it stands for the leadership.
        outage: told when the store is lost and back.
    """

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, JobKind],
        options: MaintenanceOptions,
        *,
        holder: str,
        clock: Clock,
        rng: Random,
        outage: Outage,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._store = store
        self._options = options
        self._holder = holder
        self._clock = clock
        self._rng = rng
        self._outage = outage
        self._listeners = listeners
        declared = tuple(kinds.values())
        self._services: tuple[Service, ...] = (
            Rescue(store, interval=options.rescue_every, listeners=listeners),
            Deadlines(store, interval=options.deadlines_every, listeners=listeners),
            RetentionService(
                store, declared, interval=options.retention_every, listeners=listeners
            ),
            Probes(
                store, declared, clock=clock, interval=options.probes_every, listeners=listeners
            ),
        )
        self._leads = False

    @property
    def leads(self) -> bool:
        """Whether this holder is the leader, as far as it knows."""
        return self._leads

    async def run(self) -> None:
        """Stand for the leadership and lead, until cancelled; then resign."""
        try:
            while True:
                if await self._renew():
                    await self._lead()
                await self._clock.sleep_async(self._options.lead_seconds / 3)
        except StoreClosed:
            return
        finally:
            await self._resign()

    async def _lead(self) -> None:
        """Run the services side by side until the leadership is lost."""
        services = [asyncio.ensure_future(self._serve(service)) for service in self._services]
        try:
            while self._leads:
                await self._clock.sleep_async(self._options.lead_seconds / 3)
                await self._renew()
        finally:
            for task in services:
                task.cancel()
            await asyncio.gather(*services, return_exceptions=True)
            for service in self._services:
                # What no longer runs here cannot get through again to say so.
                self._outage.back(service.name)

    async def _renew(self) -> bool:
        """Become or stay the leader; False where another is, or the store does not say."""
        try:
            leadership = await self._store.lead(
                LEADERSHIP, self._holder, self._options.lead_seconds
            )
        except StoreClosed:
            raise
        except StoreError as error:
            self._outage.lost("leader", error)
            self._note(leads=False)
            return False
        self._outage.back("leader")
        self._note(leads=leadership is not None)
        return leadership is not None

    def _note(self, *, leads: bool) -> None:
        if leads is self._leads:
            return
        self._leads = leads
        _log.info("%s %s maintenance", self._holder, "leads" if leads else "no longer leads")
        notify(self._listeners, LeaderChanged(self._holder, leads))

    async def _serve(self, service: Service) -> None:
        failures = 0
        while True:
            try:
                count = await service.round()
            except StoreClosed:
                return
            except StoreError as error:
                self._outage.lost(service.name, error)
                failures += 1
            except Exception:
                # A chore that fails must not take the others with it, nor end for good.
                _log.exception("%s failed", service.name)
                failures += 1
            else:
                failures = 0
                self._outage.back(service.name)
                notify(self._listeners, ServiceRan(service.name, count))
            wait = service.interval
            if failures:
                wait = min(wait, _BACKOFF.delay(failures, self._rng))
            await self._clock.sleep_async(wait)

    async def _resign(self) -> None:
        self._outage.back("leader")
        if not self._leads:
            return
        self._note(leads=False)
        try:
            async with asyncio.timeout(1.0):
                await self._store.resign(LEADERSHIP, self._holder)
        except (StoreError, TimeoutError) as error:
            _log.debug("%s could not resign: %s", self._holder, error)
