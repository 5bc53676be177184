"""How often a gateway is called for one file while its health check passes and its calls fail."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from tests.apps.conversion.test_job import World

from holdfast import BreakerPolicy, Exponential, JobStatus, WorkerOptions, presets
from holdfast.testing.downstream import ScriptedDownstream, ok, status

JOBS, ATTEMPTS = 3, 3
BREAKER = replace(
    presets.GATEWAY.breaker or BreakerPolicy(),
    consecutive_failures=2,
    open_for=1.0,
    trial_calls=2,
)
# The wait is longer than the breaker stays open: in fail_fast each attempt is then a trial.
RETRY = replace(
    presets.GATEWAY,
    max_attempts=ATTEMPTS,
    backoff=Exponential(base=1.2, multiplier=1, jitter=0),
    breaker=BREAKER,
)


@pytest.fixture
def gateway():
    with ScriptedDownstream(status(503)) as server:
        server.script(ok(b"{}"), path="/health")
        yield server


@pytest.mark.parametrize("mode", ["hold", "fail_fast"])
def test_no_job_is_called_more_often_than_it_has_attempts(tmp_path, gateway, new_database, mode):
    world = World(tmp_path, gateway.url, circuit_mode=mode, retry=RETRY)
    world.url = new_database().get("HOLDFAST_DATABASE_URL", world.url)

    async def scenario(engine):
        handles = [await world.put(engine, f"job{number}") for number in range(JOBS)]
        options = WorkerOptions(poll_interval=0.02)
        working = asyncio.create_task(engine.work(options=options))
        try:
            return [await engine.wait(handle, timeout=60) for handle in handles]
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    jobs = world.run(scenario)

    calls = Counter(
        request.headers["idempotency-key"].partition(":")[2]
        for request in gateway.requests
        if request.path == "/convert"
    )
    assert any(request.path == "/health" for request in gateway.requests)
    for job in jobs:
        assert (job.status, job.error.code) == (JobStatus.FAILED, "GW_5XX")
        assert calls[job.id] <= ATTEMPTS
    # In fail_fast an open breaker may fail a job without a call.
    assert mode == "fail_fast" or set(calls.values()) == {ATTEMPTS}
    assert calls.total() > JOBS
