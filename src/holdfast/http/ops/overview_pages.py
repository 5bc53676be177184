"""The overview: what needs a person now, and how well jobs end."""

from collections import Counter
from collections.abc import Iterable

from fastapi import APIRouter, Request, Response

from holdfast.http.ops.charts import (
    BarChart,
    ColumnChart,
    columns_chart,
    counts_chart,
    durations_chart,
    shares_chart,
)
from holdfast.http.ops.downstream_pages import downstream_views
from holdfast.http.ops.frame import Frame
from holdfast.http.pages import humanize
from holdfast.jobs.client.overview import Latency, Outcomes, Overview

TARGET = 0.995
"""The share of jobs that should succeed in the end."""
_MOST_ATTEMPTS = 5
"""Jobs with as many attempts or more are counted together."""


def add_overview_pages(router: APIRouter, frame: Frame) -> None:
    """Add the front page of the dashboard."""

    @router.get("/")
    async def show(request: Request) -> Response:
        overview = await frame.engine.overview()
        figures, scope = newest_outcomes(overview)
        depth = {queue.name: queue.ready for queue in overview.queues}
        return await frame.page(
            request,
            "overview.html",
            now=overview.at,
            overview=overview,
            figures=figures,
            scope=scope,
            success=success_chart(figures),
            retries=attempts_chart(overview.retries),
            latency=None if overview.latency is None else latency_chart(overview.latency),
            depth=counts_chart(depth) if depth else None,
            trips=trips_chart(overview.trips_by_hour),
            downstreams=downstream_views(overview.downstreams, overview.at),
            dead_letters=(await frame.engine.stats()).dead_letters,
            workers=await frame.engine.workers.list(),
            target=TARGET,
        )


def newest_outcomes(overview: Overview) -> tuple[Outcomes, str]:
    """Return the outcomes of the last day, or of all time where there is no such day yet."""
    if overview.last_day is not None and overview.last_day.finished:
        return overview.last_day, "in the last day"
    return overview.total, "since the store was created"


def success_chart(outcomes: Outcomes) -> BarChart | None:
    """Return the shares that succeeded, beside the target; None while no job has finished."""
    first, end = outcomes.first_try_share, outcomes.success_share
    if first is None or end is None:
        return None
    return shares_chart({"At the first try": first, "In the end": end}, TARGET)


def attempts_chart(retries: Iterable[tuple[int, int]]) -> BarChart | None:
    """Return how many jobs took how many attempts; None while no job has finished."""
    jobs = Counter[str]()
    for attempts, count in sorted(retries):
        if attempts >= _MOST_ATTEMPTS:
            jobs[f"{_MOST_ATTEMPTS} or more"] += count
        else:
            jobs["1 attempt" if attempts == 1 else f"{attempts} attempts"] += count
    return counts_chart(jobs) if jobs else None


def latency_chart(latency: Latency) -> BarChart:
    """Return the times that jobs took, without and with the retries of the same jobs."""
    rows = [
        (f"{name} {words}", getattr(times, name))
        for name in ("p50", "p95", "p99")
        for words, times in (
            ("last attempt", latency.without_retries),
            ("with retries", latency.with_retries),
        )
    ]
    return durations_chart(
        [(label, seconds, humanize.duration(seconds)) for label, seconds in rows]
    )


def trips_chart(trips_by_hour: tuple[int, ...]) -> ColumnChart:
    """Return how often breakers opened in each of the last hours, the present one last."""
    last = len(trips_by_hour) - 1
    labels = (
        "this hour" if place == last else f"{last - place} h ago" for place in range(last + 1)
    )
    return columns_chart(list(zip(labels, trips_by_hour, strict=True)))
