"""What metrics and traces cost: drained no-op jobs with them and without, in one run.

The jobs are enqueued in bulk, before the drain that is measured. Each has a trace of its own, which
is sampled or not where it begins, and each comes with its headers in its `meta`. Spans go through a
`BatchSpanProcessor` to an exporter that discards them.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from prometheus_client import CollectorRegistry, generate_latest
from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.holdfast_queue import BULK, OURS, app, drain, fresh_database, nothing
from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized
from holdfast.bootstrap import Engine
from holdfast.jobs.client.requests import JobRequest
from holdfast.telemetry.prometheus import PrometheusListener
from holdfast.telemetry.tracing import Tracing

CONCURRENCY = 500
PLAIN, SAMPLED = "without metrics", "without traces"
SHARE = 0.1


class _Discard(SpanExporter):
    """Takes spans and keeps none: what a network costs is not Holdfast's."""

    # The SDK types the spans as a sequence of its own, and nothing here reads them.
    def export(self, _: "tuple[ReadableSpan, ...]") -> SpanExportResult:  # type: ignore[override]
        return SpanExportResult.SUCCESS


Database = Callable[[], AbstractContextManager[str]]
"""Makes an empty database, and yields its URL."""


@contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/work.db"


Headers = Callable[[], Mapping[str, str] | None]
"""Returns the headers that the next job carries."""


def _rate(
    jobs: int, make: "Callable[[str], Engine]", database: Database, headers: Headers
) -> float:
    async def run(url: str) -> float:
        async with make(url) as engine:
            for start in range(0, jobs, BULK):
                count = min(BULK, jobs - start)
                requests = [JobRequest(nothing, None, meta=headers()) for _ in range(count)]
                await engine.enqueue_many(requests)
            return await drain(engine, jobs, CONCURRENCY)

    with database() as url:
        return asyncio.run(run(url))


def _no_headers() -> None:
    """Jobs without a trace."""


def _new_trace(senders: TracerProvider) -> Mapping[str, str]:
    """Begin a trace, as a web request would; return its headers."""
    with senders.get_tracer("benchmark").start_as_current_span("request"):
        return Tracing(senders).current_headers()


def _plain(url: str) -> Engine:
    return Engine(url, apps=[app])


def _counted(url: str) -> Engine:
    registry = CollectorRegistry()
    engine = Engine(url, apps=[app], listeners=[PrometheusListener(registry)])
    generate_latest(registry)
    return engine


def _traced(provider: TracerProvider, url: str) -> Engine:
    return Tracing(provider).instrument(Engine(url, apps=[app]))


def _row(
    work: str,
    peer: str,
    make: "Callable[[str], Engine]",
    at_most: float,
    database: Database,
    *,
    rounds: int,
    headers: Headers = _no_headers,
) -> Row:
    jobs = sized(2_000, 10_000)
    contenders = {
        OURS: partial(_rate, jobs, make, database, headers),
        peer: partial(_rate, jobs, _plain, database, _no_headers),
    }
    rates = best_rates(contenders, rounds=rounds)
    cost = 1 - rates[OURS] / rates[peer]
    return Row(
        work,
        ratios=rate_ratios(rates, OURS),
        goals=[Goal(peer, 1 - at_most)],
        note=f"cost: {cost:.1%} of the throughput, at most {at_most:.0%}",
    )


def _rows_on(store: str, database: Database, provider: TracerProvider, rounds: int) -> list[Row]:
    # What the senders record is no part of the drain: they have no processor.
    senders = TracerProvider(sampler=provider.sampler, shutdown_on_exit=False)
    return [
        _row(
            f"{store}: drain no-op jobs with Prometheus on",
            PLAIN,
            _counted,
            0.05,
            database,
            rounds=rounds,
        ),
        _row(
            f"{store}: drain no-op jobs with 10 % of the traces sampled",
            SAMPLED,
            partial(_traced, provider),
            0.15,
            database,
            rounds=rounds,
            headers=partial(_new_trace, senders),
        ),
    ]


def rows() -> list[Row]:
    """Run every row of this file."""
    sampler = ParentBased(TraceIdRatioBased(SHARE))
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_Discard()))
    try:
        found = _rows_on("SQLite", _sqlite, provider, rounds=sized(3, 12))
        try:
            with PostgresServer() as server:
                database = partial(fresh_database, server, migrated=True)
                # To make and drop a database takes longer than the drain.
                found += _rows_on("PostgreSQL", database, provider, rounds=sized(2, 6))
        except PostgresMissing as missing:
            print(f"left out, telemetry on PostgreSQL: {missing}")
        return found
    finally:
        provider.shutdown()
