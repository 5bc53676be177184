"""The overview: what needs a person now, and how well jobs end."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from holdfast.http.ops.charts import BarChart, counts_chart, shares_chart
from holdfast.http.ops.downstream_pages import read_downstreams
from holdfast.http.ops.frame import Frame
from holdfast.jobs.model import JobStatus
from holdfast.jobs.views import OutcomeCounts, Stats

TARGET = 0.995
"""The share of jobs that should succeed in the end."""
_MOST_ATTEMPTS = 5
"""Jobs with as many attempts or more are counted together."""


@dataclass(frozen=True, slots=True)
class OutcomeFigures:
    """How jobs ended, over all that the store has counted.

    Args:
        finished: complete and failed jobs; cancelled ones say nothing about success.
        first_try: the share that succeeded at the first attempt; None while none has finished.
        in_the_end: the share that succeeded at all.
        overhead: attempts beyond the first, as a share of finished jobs.
        attempts: how many finished jobs took so many attempts.
    """

    finished: int
    first_try: float | None
    in_the_end: float | None
    overhead: float
    attempts: Mapping[str, int]

    @property
    def shares(self) -> dict[str, float]:
        """The two shares by name; empty while no job has finished."""
        if self.first_try is None or self.in_the_end is None:
            return {}
        return {"At the first try": self.first_try, "In the end": self.in_the_end}


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """A queue: jobs by state, and since when its oldest ready job waits, in epoch seconds."""

    name: str
    ready: int
    scheduled: int
    running: int
    oldest_at: float | None


def outcome_figures(outcomes: Iterable[OutcomeCounts]) -> OutcomeFigures:
    """Return the figures of `outcomes`."""
    ended = [each for each in outcomes if each.status in {JobStatus.COMPLETE, JobStatus.FAILED}]
    finished = sum(each.count for each in ended)
    complete = [each for each in ended if each.status is JobStatus.COMPLETE]
    tries = Counter[str]()
    for each in ended:
        tries[_attempts(each.attempts)] += each.count
    retries = sum(max(0, each.attempts - 1) * each.count for each in ended)
    return OutcomeFigures(
        finished=finished,
        first_try=_share((each.count for each in complete if each.attempts <= 1), finished),
        in_the_end=_share((each.count for each in complete), finished),
        overhead=retries / finished if finished else 0.0,
        attempts={label: tries[label] for label in sorted(tries)},
    )


def queue_figures(stats: Stats) -> list[QueueFigures]:
    """Return the queues by name."""
    names = sorted({lane.queue for lane in stats.lanes})
    return [
        QueueFigures(
            name,
            ready=sum(lane.ready for lane in stats.lanes if lane.queue == name),
            scheduled=sum(lane.scheduled for lane in stats.lanes if lane.queue == name),
            running=sum(lane.processing for lane in stats.lanes if lane.queue == name),
            oldest_at=stats.oldest_ready_at.get(name),
        )
        for name in names
    ]


def _attempts(number: int) -> str:
    if number >= _MOST_ATTEMPTS:
        return f"{_MOST_ATTEMPTS} or more"
    return "1 attempt" if number == 1 else f"{number} attempts"


def _share(counts: Iterable[int], of: int) -> float | None:
    return sum(counts) / of if of else None


def overview_routes(frame: Frame) -> APIRouter:
    """Return the front page of the dashboard."""
    router = APIRouter()

    @router.get("/")
    async def show(request: Request) -> Response:
        now, stats = await frame.engine.store.ping(), await frame.engine.stats()
        figures, queues = outcome_figures(stats.outcomes), queue_figures(stats)
        success = shares_chart(figures.shares, TARGET) if figures.finished else None
        retries = counts_chart(figures.attempts) if figures.finished else None
        return await frame.page(
            request,
            "overview.html",
            now=now,
            figures=figures,
            success=success,
            retries=retries,
            depth=_depth(queues),
            queues=queues,
            downstreams=await read_downstreams(frame.state, stats, now),
            dead_letters=stats.dead_letters,
            workers=await frame.engine.workers.list(),
            target=TARGET,
        )

    return router


def _depth(queues: list[QueueFigures]) -> BarChart | None:
    return counts_chart({queue.name: queue.ready for queue in queues}) if queues else None
