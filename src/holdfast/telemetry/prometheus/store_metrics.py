"""The store's counters, read for one scrape."""

from collections.abc import Iterable, Iterator
from itertools import chain

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.views import LaneCounts, Stats
from holdfast.outbox import Backlog, Outbox
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.telemetry.prometheus.families import FamilyList, family

_STANDINGS = (
    "uploaded", "scheduled", "ready", "processing", "complete", "failed", "cancelled",
)  # fmt: skip


class StoreMetrics:
    """Read the figures of an engine's store, and those of this process beside them.

    Args:
        engine: an open engine.
        outbox: its outbox, if it has one.
        registry: the metrics of this process, which are added.
    """

    def __init__(
        self,
        engine: StoreEngine,
        outbox: Outbox | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._registry = registry

    async def families(self) -> list[Metric]:
        """Return the figures of the store. It reads counters and scans no jobs."""
        engine = self._engine
        stats, records = await engine.stats(), await engine.downstreams.list()
        now = await engine.store.ping()
        found = [*self._of_jobs(stats, now), *self._of_lanes(stats.lanes, records, now)]
        found += self._of_downstreams(records, now)
        if self._outbox is not None:
            found += _of_outbox(await self._outbox.backlog())
        return found

    async def exposition(self) -> bytes:
        """Return all samples as text, in version 0.0.4 of the format."""
        families = await self.families()
        if self._registry is None:
            return generate_latest(FamilyList(families))
        return generate_latest(FamilyList(chain(families, self._registry.collect())))

    def _of_jobs(self, stats: Stats, now: float) -> Iterator[Metric]:
        yield family(
            "holdfast_jobs_finished_total",
            [((one.kind, one.status, str(one.attempts)), one.count) for one in stats.outcomes],
        )
        yield family("holdfast_dead_letters", [((), stats.dead_letters)])
        yield family(
            "holdfast_oldest_ready_seconds",
            [
                ((queue,), max(0.0, now - at))
                for queue, at in stats.oldest_ready_at.items()
                if at is not None
            ],
        )
        totals = sorted(stats.totals.items())
        yield family("holdfast_events_total", [((name,), count) for name, count in totals])
        yield family("manual_retry_total", [((), stats.totals.get("manual_retries", 0))])

    def _of_lanes(
        self, lanes: Iterable[LaneCounts], records: Iterable[DownstreamRecord], now: float
    ) -> Iterator[Metric]:
        lanes, base = list(lanes), self._base
        opened = {each.name for each in records if each.state_at(now) is CircuitState.OPEN}
        yield family(
            "holdfast_jobs",
            [
                ((lane.queue, base(lane.downstream), lane.kind, each), getattr(lane, each))
                for lane in lanes
                for each in _STANDINGS
            ],
        )
        yield family(
            "holdfast_jobs_held",
            [
                ((lane.queue, base(lane.downstream)), lane.ready)
                for lane in lanes
                if lane.downstream in opened
            ],
        )
        yield family("queue_depth", [((lane.queue,), lane.ready) for lane in lanes])
        yield family("jobs_active", [((lane.queue,), lane.processing) for lane in lanes])

    def _of_downstreams(self, records: Iterable[DownstreamRecord], now: float) -> Iterator[Metric]:
        known = [(self._base(each.name), each) for each in records]
        yield family(
            "holdfast_downstream_state",
            [
                ((name, state), int(each.state_at(now) is state))
                for name, each in known
                for state in CircuitState
            ],
        )
        yield family(
            "holdfast_downstream_trips_total", [((name,), each.trips) for name, each in known]
        )
        yield family(
            "holdfast_downstream_open_seconds_total",
            [((name,), each.open_seconds) for name, each in known],
        )

    def _base(self, downstream: str | None) -> str:
        return self._engine.registry.downstream_base(downstream or "")


def _of_outbox(backlog: Backlog) -> Iterator[Metric]:
    yield family(
        "holdfast_outbox_messages",
        [(("pending",), backlog.pending), (("failed",), backlog.failed)],
    )
    yield family("holdfast_outbox_lag_seconds", [((), backlog.lag)])
