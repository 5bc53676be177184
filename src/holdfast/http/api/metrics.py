"""The store's counters as Prometheus reads them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from holdfast.http.ops_schemas import LaneOut
from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.served_app import state_of
from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.views import Stats
from holdfast.outbox import Backlog
from holdfast.resilience.breaker.transitions import CircuitState

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STANDINGS = tuple(
    name for name in LaneOut.model_fields if name not in {"queue", "downstream", "kind"}
)

Sample = tuple[Mapping[str, str], float]
BaseName = Callable[[str], str]
"""Returns the declared name of a downstream, without its key."""

router = APIRouter(tags=["health"], responses=ERROR_ANSWERS)


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "Samples.", "content": {"text/plain": {}}}},
)
async def metrics(request: Request) -> PlainTextResponse:
    """Return the store's counters and the state of every breaker."""
    engine = state_of(request).engine
    stats = await engine.stats()
    records, now = await engine.downstreams.list(), await engine.store.ping()
    base = engine.registry.downstream_base
    lines = [*_of_jobs(stats, now, base), *_of_downstreams(records, now, base)]
    outbox = state_of(request).outbox
    if outbox is not None:
        lines += _of_outbox(await outbox.backlog())
    return PlainTextResponse("\n".join([*lines, ""]), media_type=_TYPE)


def _of_jobs(stats: Stats, now: float, base: BaseName) -> Iterator[str]:
    yield from _family(
        "holdfast_jobs",
        "gauge",
        "Jobs, by lane and where they stand; ready and scheduled are the queued ones.",
        _summed(
            (
                {
                    "queue": lane.queue,
                    "downstream": base(lane.downstream or ""),
                    "kind": lane.kind,
                    "status": standing,
                },
                getattr(lane, standing),
            )
            for lane in stats.lanes
            for standing in _STANDINGS
        ),
    )
    yield from _family(
        "holdfast_jobs_finished_total",
        "counter",
        "Jobs that ever ended, by how and after how many attempts.",
        (
            ({"kind": one.kind, "status": one.status, "attempts": str(one.attempts)}, one.count)
            for one in stats.outcomes
        ),
    )
    yield from _family(
        "holdfast_dead_letters", "gauge", "Jobs that wait for a person.", [({}, stats.dead_letters)]
    )
    yield from _family(
        "holdfast_oldest_ready_seconds",
        "gauge",
        "How long the job has waited that is ready longest, by queue.",
        (
            ({"queue": queue}, max(0.0, now - at))
            for queue, at in stats.oldest_ready_at.items()
            if at is not None
        ),
    )
    yield from _family(
        "holdfast_events_total",
        "counter",
        "What has happened to jobs beside their ends: retries by hand, rescues, refused writes.",
        (({"event": name}, count) for name, count in sorted(stats.totals.items())),
    )


def _of_downstreams(
    records: Iterable[DownstreamRecord], now: float, base: BaseName
) -> Iterator[str]:
    known = list(records)
    yield from _family(
        "holdfast_downstream_state",
        "gauge",
        "Breakers in each state: 1, or all those of a downstream with keys.",
        _summed(
            ({"downstream": base(one.name), "state": state}, int(one.state_at(now) is state))
            for one in known
            for state in CircuitState
        ),
    )
    yield from _family(
        "holdfast_downstream_trips_total",
        "counter",
        "How often a downstream's breaker has opened.",
        _summed(({"downstream": base(one.name)}, one.trips) for one in known),
    )
    yield from _family(
        "holdfast_downstream_open_seconds_total",
        "counter",
        "How long a downstream's breaker was open, until it closed last.",
        _summed(({"downstream": base(one.name)}, one.open_seconds) for one in known),
    )


def _of_outbox(backlog: Backlog) -> Iterator[str]:
    yield from _family(
        "holdfast_outbox_messages",
        "gauge",
        "Messages that are not published, by status; counted up to 10000.",
        [({"status": "pending"}, backlog.pending), ({"status": "failed"}, backlog.failed)],
    )
    yield from _family(
        "holdfast_outbox_lag_seconds",
        "gauge",
        "How long the oldest pending message has waited.",
        [({}, backlog.lag)],
    )


def _summed(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Add up the samples with the same labels.

    Downstreams with keys would make a series each, and show to everyone what jobs are about.
    """
    sums: defaultdict[tuple[tuple[str, str], ...], float] = defaultdict(float)
    for labels, value in samples:
        sums[tuple(labels.items())] += value
    return ((dict(labels), value) for labels, value in sums.items())


def _family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield sample(name, labels, value)


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """Return one line of the exposition format."""
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value:.15g}" if shown else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
