"""Figures of the store; tests/http/api/test_metrics.py reads them over HTTP."""

import asyncio

from prometheus_client import CollectorRegistry, Counter

from holdfast import App, Downstream, Engine, JobContext
from holdfast.telemetry.metric_catalogue import STORE_METRICS
from holdfast.telemetry.prometheus import StoreMetrics

app = App("shop")


@app.job(downstream=Downstream("host", key=str), queue="mail")
async def send(ctx: JobContext, host: str) -> None: ...


def read(tmp_path, registry=None):
    """Return the families of a store with two jobs, one of them held, and the text."""

    async def run():
        async with Engine(f"sqlite:///{tmp_path}/work.db", apps=[app]) as engine:
            for host in ("a.example", "b.example"):
                await engine.enqueue(send, host)
            await engine.downstreams.hold("host:a.example")
            metrics = StoreMetrics(engine, engine.outbox, registry)
            return await metrics.families(), (await metrics.exposition()).decode()

    return asyncio.run(run())


def test_every_metric_of_the_catalogue_is_read_and_no_other(tmp_path):
    families, _ = read(tmp_path)

    names = {f"{each.name}_total" if each.type == "counter" else each.name for each in families}
    assert names == set(STORE_METRICS)


def test_downstreams_with_keys_are_summed_under_their_base_name(tmp_path):
    _, text = read(tmp_path)

    assert 'holdfast_downstream_state{downstream="host",state="OPEN"} 1.0' in text
    assert 'holdfast_downstream_state{downstream="host",state="CLOSED"} 1.0' in text
    assert "example" not in text


def test_jobs_behind_an_open_breaker_are_held(tmp_path):
    _, text = read(tmp_path)

    assert 'holdfast_jobs_held{downstream="host",queue="mail"} 1.0' in text
    assert 'queue_depth{queue="mail"} 2.0' in text


def test_the_metrics_of_the_process_are_beside_them(tmp_path):
    registry = CollectorRegistry()
    Counter("parcels", "Parcels.", registry=registry).inc()

    _, text = read(tmp_path, registry)

    assert "parcels_total 1.0" in text
    assert "queue_depth" in text
