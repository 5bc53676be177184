"""The figures of the operators' overview."""

from fastapi import APIRouter, Request

from holdfast.http.audited import OpsRoute
from holdfast.http.ops_schemas import DownstreamOut
from holdfast.http.schemas import ERROR_ANSWERS, Model, Moment
from holdfast.http.served_app import state_of

router = APIRouter(
    prefix="/api/ops/overview", tags=["ops"], route_class=OpsRoute, responses=ERROR_ANSWERS
)


class OutcomesOut(Model):
    """How jobs have ended: shares are from 0 to 1, the overhead of retries in per cent."""

    complete: int
    failed: int
    first_try: int
    attempts: int
    since: Moment | None
    finished: int
    first_try_share: float | None
    success_share: float | None
    retry_overhead: float | None


class PercentilesOut(Model):
    """Seconds that a half, 95 and 99 per cent of the jobs did not exceed."""

    p50: float
    p95: float
    p99: float


class LatencyOut(Model):
    """How long the newest finished jobs took, all figures of the same jobs, in seconds."""

    jobs: int
    since: Moment
    without_retries: PercentilesOut
    with_retries: PercentilesOut
    total: PercentilesOut


class QueueDepthOut(Model):
    """The unfinished jobs of a queue, and since when its oldest ready job waits."""

    name: str
    ready: int
    scheduled: int
    processing: int
    oldest_ready_at: Moment | None


class KindOverviewOut(Model):
    """The figures of one kind."""

    kind: str
    total: OutcomesOut
    last_hour: OutcomesOut | None
    last_day: OutcomesOut | None
    retries: list[tuple[int, int]]
    latency: LatencyOut | None


class HistoryPointOut(Model):
    """How jobs have ended in the hour before `at`, and how many were ready then."""

    at: Moment
    outcomes: OutcomesOut
    ready: int


class OverviewAnswer(Model):
    """Figures about all jobs; `retries` are pairs of a number of attempts and of jobs."""

    at: Moment
    total: OutcomesOut
    last_hour: OutcomesOut | None
    last_day: OutcomesOut | None
    retries: list[tuple[int, int]]
    latency: LatencyOut | None
    queues: list[QueueDepthOut]
    kinds: list[KindOverviewOut]
    downstreams: list[DownstreamOut]
    trips_by_hour: list[int]
    history: list[HistoryPointOut]


@router.get("")
async def show_overview(request: Request) -> OverviewAnswer:
    """Show success at the first try and in the end, retries, times, queues and breakers."""
    found = await state_of(request).engine.overview()
    downstreams = [DownstreamOut.detailed(each, found.at) for each in found.downstreams]
    return OverviewAnswer.from_record(found, downstreams=downstreams)
