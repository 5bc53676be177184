"""Compete for the leaderships of maintenance, and run the services as the leader."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from holdfast.clock import Clock
from holdfast.events import Listener, notify
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.job_events import LeaderChanged, ServiceRan
from holdfast.jobs.maintenance.audit_retention import AuditRetention
from holdfast.jobs.maintenance.counter_marks import CounterMarks
from holdfast.jobs.maintenance.dead_letter_kinds import DeadLetterKinds
from holdfast.jobs.maintenance.deadlines import Deadlines
from holdfast.jobs.maintenance.declarations import fingerprint
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.maintenance.periodic import PeriodicJobs
from holdfast.jobs.maintenance.probes import Probes
from holdfast.jobs.maintenance.rescue import Rescue
from holdfast.jobs.maintenance.retention import RetentionService
from holdfast.jobs.maintenance.service_port import MaintenanceService
from holdfast.jobs.maintenance.unknown_kinds import UnknownKinds
from holdfast.jobs.maintenance.unused_downstreams import UnusedDownstreams
from holdfast.jobs.maintenance.webhooks import WebhookDispatch
from holdfast.jobs.store_outage import Outage
from holdfast.jobs.store_port import Store, StoreClosed, StoreError
from holdfast.resilience.backoff import Exponential

_log = logging.getLogger("holdfast.maintenance")

LEADERSHIP = "maintenance"
"""The leadership for what needs no declarations, such as rescue: one for a database."""
_BACKOFF = Exponential(base=0.5, multiplier=2, cap=10.0, jitter=0.2)


class Maintenance:
    """Run the maintenance services for which this holder is the leader.

    Args:
        holder: its name in the leadership leases.
        outage: records failed and successful calls of the store.
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
        compete_every = min(options.compete_every, options.lead_seconds / 3)
        candidate = Candidate(
            store, holder, options.lead_seconds, compete_every, clock, rng, outage, listeners
        )
        declared = tuple(kinds.values())
        leadership = declared_leadership(declared)
        self._leaders = (
            Leader(
                candidate,
                LEADERSHIP,
                (
                    Rescue(store, interval=options.rescue_every, listeners=listeners),
                    Deadlines(store, interval=options.deadlines_every, listeners=listeners),
                    UnknownKinds(
                        store, holder, interval=options.kinds_every, listeners=listeners
                    ),
                    AuditRetention(store, interval=options.retention_every),
                    CounterMarks(store, interval=options.marks_every),
                ),
            ),
            Leader(
                candidate,
                leadership,
                (
                    # Before retention, which waits for it.
                    WebhookDispatch(store, declared, interval=options.webhooks_every),
                    RetentionService(
                        store, declared, leadership, interval=options.retention_every,
                        listeners=listeners, clock=clock,
                    ),
                    Probes(
                        store, declared, clock=clock, interval=options.probes_every,
                        listeners=listeners,
                    ),
                    PeriodicJobs(store, declared, clock=clock),
                    UnusedDownstreams(store, declared, interval=options.retention_every),
                    DeadLetterKinds(store, declared, interval=options.retention_every),
                ),
            ),
        )  # fmt: skip

    async def run_once(self) -> int:
        """Run one round of every service, without leading; return how much they handled."""
        services = [service for leader in self._leaders for service in leader.services]
        return sum([await service.round() for service in services])

    async def run(self) -> None:
        """Compete for both leaderships and lead until cancelled; then resign."""
        async with asyncio.TaskGroup() as group:
            for leader in self._leaders:
                group.create_task(leader.run())


def declared_leadership(kinds: Iterable[JobKind]) -> str:
    """Return the leadership for what follows declarations: one for all workers with the same."""
    return f"{LEADERSHIP} {fingerprint(kinds)}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that competes for leaderships: how long one lasts and how often it tries."""

    store: Store
    holder: str
    lead_seconds: float
    compete_every: float
    clock: Clock
    rng: Random
    outage: Outage
    listeners: Sequence[Listener] = ()


class Leader:
    """Compete for the leadership `name`, and run its services while it is held."""

    def __init__(
        self, candidate: Candidate, name: str, services: Sequence[MaintenanceService]
    ) -> None:
        self._name = name
        self.services = services
        self._duties = ", ".join(service.name for service in services)
        self._store = candidate.store
        self._holder = candidate.holder
        self._lead_seconds = candidate.lead_seconds
        self._compete_every = candidate.compete_every
        self._clock = candidate.clock
        self._rng = candidate.rng
        self._outage = candidate.outage
        self._listeners = candidate.listeners
        self._leads = False

    async def run(self) -> None:
        """Compete for the leadership and lead until cancelled; then resign."""
        try:
            while True:
                await self._compete()
                await self._clock.sleep_async(self._compete_every)
        except StoreClosed:
            return
        finally:
            await self._resign()

    async def _compete(self) -> None:
        """Lead if no other does; an unexpected error must not end this leadership and the other."""
        try:
            if await self._renew():
                await self._lead()
        except StoreClosed:
            raise
        except Exception:
            _log.exception("%s could not lead maintenance: %s", self._holder, self._duties)
            self._set_leads(leads=False)

    async def _lead(self) -> None:
        """Run the services concurrently until the leadership is lost."""
        services = [asyncio.ensure_future(self._serve(service)) for service in self.services]
        try:
            while self._leads:
                await self._clock.sleep_async(self._lead_seconds / 3)
                await self._renew()
        finally:
            for task in services:
                task.cancel()
            await asyncio.gather(*services, return_exceptions=True)
            for service in self.services:
                # A stopped service makes no further call that could end its outage.
                self._outage.back(service.name)

    async def _renew(self) -> bool:
        """Become or stay the leader; False if another is, or the store does not answer."""
        try:
            leadership = await self._store.lead(self._name, self._holder, self._lead_seconds)
        except StoreClosed:
            raise
        except StoreError as error:
            self._outage.lost(self._name, error)
            self._set_leads(leads=False)
            return False
        self._outage.back(self._name)
        self._set_leads(leads=leadership is not None)
        return leadership is not None

    def _set_leads(self, *, leads: bool) -> None:
        if leads is self._leads:
            return
        self._leads = leads
        leading = "leads" if leads else "no longer leads"
        _log.info("%s %s maintenance: %s", self._holder, leading, self._duties)
        notify(self._listeners, LeaderChanged(self._holder, leads, self._name))

    async def _serve(self, service: MaintenanceService) -> None:
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
                # A failing service must neither stop the others nor stop itself.
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
        self._outage.back(self._name)
        if not self._leads:
            return
        self._set_leads(leads=False)
        try:
            async with asyncio.timeout(1.0):
                await self._store.resign(self._name, self._holder)
        except (StoreError, TimeoutError) as error:
            _log.debug("%s could not resign: %s", self._holder, error)
