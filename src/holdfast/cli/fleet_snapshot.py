"""What `holdfast top` shows: the counters of a store at one moment, and rates between two."""

from collections import Counter
from dataclasses import dataclass

from holdfast.bootstrap import Engine
from holdfast.cli.output import Record
from holdfast.jobs.control_port import WorkerRecord
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.model import JobStatus
from holdfast.jobs.views import Stats
from holdfast.outbox import Backlog

QUEUE_COLUMNS = ("queue", "state", "ready", "scheduled", "running", "oldest")
BREAKER_COLUMNS = ("downstream", "state", "since", "next_trial", "ready", "last_error")


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """A store at the moment `at`, epoch seconds of its clock.

    Attributes:
        troubled: downstreams whose breaker is not closed.
        paused: the names of paused queues.
    """

    at: float
    stats: Stats
    workers: tuple[WorkerRecord, ...]
    troubled: tuple[DownstreamRecord, ...]
    backlog: Backlog
    paused: frozenset[str]

    @classmethod
    async def read(cls, engine: Engine) -> "FleetSnapshot":
        """Read the counters; no job is looked at."""
        queues = await engine.queues.list()
        return cls(
            await engine.store.ping(),
            await engine.stats(),
            await engine.workers.list(),
            await engine.downstreams.troubled(),
            await engine.outbox.backlog(),
            frozenset(queue.name for queue in queues if queue.paused),
        )

    @property
    def unfinished(self) -> int:
        """Jobs that are queued or running."""
        return sum(lane.scheduled + lane.ready + lane.processing for lane in self.stats.lanes)

    def ended(self, status: JobStatus) -> int:
        """Return how many jobs ever ended in `status`."""
        return sum(each.count for each in self.stats.outcomes if each.status is status)

    def queue_records(self) -> list[Record]:
        """Return the queues, by name; `oldest` is the age in seconds of the oldest ready job."""
        counts: dict[str, Counter[str]] = {name: Counter() for name in self.paused}
        for lane in self.stats.lanes:
            counts.setdefault(lane.queue, Counter()).update(
                ready=lane.ready, scheduled=lane.scheduled, running=lane.processing
            )
        return [
            {
                "queue": name,
                "state": "paused" if name in self.paused else "active",
                "ready": counts[name]["ready"],
                "scheduled": counts[name]["scheduled"],
                "running": counts[name]["running"],
                "oldest": self._age(name),
            }
            for name in sorted(counts)
        ]

    def breaker_records(self) -> list[Record]:
        """Return the breakers that are not closed; `since` and `next_trial` are seconds."""
        ready: Counter[str | None] = Counter()
        for lane in self.stats.lanes:
            ready[lane.downstream] += lane.ready
        return [
            {
                "downstream": record.name,
                "state": "held" if record.circuit.held else record.state_at(self.at),
                "since": _seconds(self.at, record.circuit.opened_at),
                "next_trial": _seconds(record.circuit.open_until, self.at),
                "ready": ready[record.name],
                "last_error": record.last_error,
            }
            for record in self.troubled
        ]

    def _age(self, queue: str) -> float | None:
        return _seconds(self.at, self.stats.oldest_ready_at.get(queue))


@dataclass(frozen=True, slots=True)
class Rates:
    """Jobs per second between two snapshots; manual retries count as arrivals."""

    arrived: float
    completed: float
    failed: float

    @classmethod
    def between(cls, before: FleetSnapshot, after: FleetSnapshot) -> "Rates | None":
        """Return the rates; None if no time has passed."""
        seconds = after.at - before.at
        if seconds <= 0:
            return None
        ended = {status: after.ended(status) - before.ended(status) for status in _ENDS}
        arrived = after.unfinished - before.unfinished + sum(ended.values())
        return cls(
            max(0, arrived) / seconds,
            ended[JobStatus.COMPLETE] / seconds,
            ended[JobStatus.FAILED] / seconds,
        )


_ENDS = (JobStatus.COMPLETE, JobStatus.FAILED, JobStatus.CANCELLED)


def _seconds(later: float | None, earlier: float | None) -> float | None:
    if later is None or earlier is None:
        return None
    return round(max(0.0, later - earlier), 1)
