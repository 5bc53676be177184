"""What metrics and traces cost: drained no-op jobs with them and without, in one run."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from prometheus_client import CollectorRegistry, generate_latest
from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.holdfast_queue import OURS, add, app, drain, fresh_database
from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized
from holdfast.bootstrap import Engine
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


def _rate(jobs: int, make: "Callable[[str], Engine]", database: Database) -> float:
    async def run(url: str) -> float:
        async with make(url) as engine:
            # One by one: each job has a trace of its own, and is sampled or not by itself.
            await asyncio.gather(*(add(engine, 1) for _ in range(jobs)))
            return await drain(engine, jobs, CONCURRENCY)

    with database() as url:
        return asyncio.run(run(url))


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
    work: str, peer: str, make: "Callable[[str], Engine]", at_most: float, database: Database
) -> Row:
    jobs = sized(2_000, 10_000)
    contenders = {
        OURS: partial(_rate, jobs, make, database),
        peer: partial(_rate, jobs, _plain, database),
    }
    rates = best_rates(contenders, rounds=sized(3, 12))
    cost = 1 - rates[OURS] / rates[peer]
    return Row(
        work,
        ratios=rate_ratios(rates, OURS),
        goals=[Goal(peer, 1 - at_most)],
        note=f"cost: {cost:.1%} of the throughput, at most {at_most:.0%}",
    )


def _rows_on(store: str, database: Database, provider: TracerProvider) -> list[Row]:
    traced = partial(_traced, provider)
    return [
        _row(f"{store}: drain no-op jobs with Prometheus on", PLAIN, _counted, 0.05, database),
        _row(
            f"{store}: drain no-op jobs with 10 % of the traces sampled",
            SAMPLED,
            traced,
            0.15,
            database,
        ),
    ]


def rows() -> list[Row]:
    """Run every row of this file."""
    sampler = ParentBased(TraceIdRatioBased(SHARE))
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_Discard()))
    try:
        found = _rows_on("SQLite", _sqlite, provider)
        try:
            with PostgresServer() as server:
                database = partial(fresh_database, server, migrated=True)
                found += _rows_on("PostgreSQL", database, provider)
        except PostgresMissing as missing:
            print(f"left out, telemetry on PostgreSQL: {missing}")
        return found
    finally:
        provider.shutdown()
