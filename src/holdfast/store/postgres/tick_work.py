"""What one tick did so far, as the server has answered it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.model import Finished
from holdfast.jobs.store_port import FailedJob, Overruled, Refused
from holdfast.store.postgres.claim import Started, timed_out_job, unchecked
from holdfast.store.postgres.connection import Row
from holdfast.store.postgres.finish import OVERRULINGS, REFUSALS
from holdfast.store.postgres.lanes import Lane


@dataclass(slots=True)
class TickWork:
    """What one tick did so far."""

    now: float = 0.0
    refused: list[Refused] = field(default_factory=list)
    overruled: list[Overruled] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    timed_out: list[FailedJob] = field(default_factory=list)
    moved: list[DownstreamRecord] = field(default_factory=list)
    wake_at: float | None = None
    outdated: bool = False
    needs_check: bool = False
    lanes: dict[int, Lane] = field(default_factory=dict)
    scanned: tuple[Sequence[int], float] | None = None
    idle: Sequence[int] = ()
    claim_lost: bool = False

    def read(self, finished: Sequence[Finished], lines: Sequence[Row]) -> None:
        """Take in the lines of an answer."""
        for line in lines:
            match line["what"]:
                case "claims":
                    self.started.append(unchecked(line))
                case "stale" | "late" as reason:
                    lease = finished[line["number"] - 1].lease
                    self.refused.append(Refused(lease, REFUSALS[reason]))
                case "failed" | "cancelled" as target:
                    lease = finished[line["number"] - 1].lease
                    self.overruled.append(Overruled(lease, OVERRULINGS[target]))
                case "timed_out":
                    self.timed_out.append(timed_out_job(line))
                case "wake":
                    self.wake_at = line["at"]
                case "now":
                    self.now = line["at"]
                case "outdated":
                    self.outdated = True
                case "check":
                    self.needs_check = True
                case "lanes":
                    names = zip(line["queues"], line["downstreams"], line["kinds"], strict=True)
                    self.lanes |= zip(line["lanes"], names, strict=True)
                case "scanned":
                    self.scanned = line["lanes"] or (), line["at"]
                case "idle":
                    self.idle = line["lanes"]
