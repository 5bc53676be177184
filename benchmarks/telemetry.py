"""What metrics and traces cost: drained no-op jobs with them and without, in one run."""

import asyncio
import tempfile
from collections.abc import Callable
from functools import partial

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.holdfast_queue import OURS, add, app, drain
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


def _rate(jobs: int, make: "Callable[[str], Engine]") -> float:
    async def run(folder: str) -> float:
        async with make(f"sqlite:///{folder}/work.db") as engine:
            # One by one: each job has a trace of its own, and is sampled or not by itself.
            await asyncio.gather(*(add(engine, 1) for _ in range(jobs)))
            return await drain(engine, jobs, CONCURRENCY)

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(folder))


def _plain(url: str) -> Engine:
    return Engine(url, apps=[app])


def _counted(url: str) -> Engine:
    registry = CollectorRegistry()
    engine = Engine(url, apps=[app], listeners=[PrometheusListener(registry)])
    generate_latest(registry)
    return engine


def _traced(provider: TracerProvider, url: str) -> Engine:
    return Tracing(provider).instrument(Engine(url, apps=[app]))


def _row(work: str, peer: str, make: "Callable[[str], Engine]", at_most: float) -> Row:
    jobs = sized(2_000, 10_000)
    contenders = {OURS: partial(_rate, jobs, make), peer: partial(_rate, jobs, _plain)}
    rates = best_rates(contenders, rounds=sized(3, 12))
    cost = 1 - rates[OURS] / rates[peer]
    return Row(
        work,
        ratios=rate_ratios(rates, OURS),
        goals=[Goal(peer, 1 - at_most)],
        note=f"cost: {cost:.1%} of the throughput, at most {at_most:.0%}",
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    sampler = ParentBased(TraceIdRatioBased(SHARE))
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_Discard()))
    try:
        return [
            _row("drain no-op jobs with Prometheus on", PLAIN, _counted, 0.05),
            _row(
                "drain no-op jobs with 10 % of the traces sampled",
                SAMPLED,
                partial(_traced, provider),
                0.15,
            ),
        ]
    finally:
        provider.shutdown()
