"""The job: its outcome for every failure of the gateway and the disk."""

import asyncio
import errno
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.waiting import Calls, until

from holdfast import Engine, ErrorCode, Exponential, JobStatus, Permanent, WorkerOptions
from holdfast.files import Draft
from holdfast.testing.downstream import ScriptedDownstream, close_early, hang, ok, reset, status
from holdfast_conversion.app import Conversion
from holdfast_conversion.error_codes import line_of
from holdfast_conversion.file_names import pdf_name, xml_name
from holdfast_conversion.job_values import ConvertArgs, Converted
from holdfast_conversion.service_settings import ConversionSettings

PDF, XML = b"%PDF-1.4 something", b'<?xml version="1.0"?><document/>'
XML_TYPE = {"Content-Type": "application/xml"}
GOOD = ok(XML, headers=XML_TYPE)


@pytest.fixture
def gateway():
    with ScriptedDownstream() as server:
        yield server


class World:
    """The service's job on an engine, with a scripted gateway."""

    def __init__(self, tmp_path, url, **changes):
        settings = ConversionSettings(files=tmp_path / "files", gateway_url=url)
        retry = replace(settings.retry, backoff=Exponential(base=0.01, jitter=0))
        self.service = Conversion(replace(settings, **{"retry": retry} | changes))
        self.service.files.prepare()
        self.url = f"sqlite:///{tmp_path / 'work.db'}"

    def run(self, scenario):
        async def live():
            async with Engine(self.url, apps=[self.service.app]) as engine:
                return await scenario(engine)

        return asyncio.run(live())

    async def put(self, engine, name="job1", mapping="text"):
        with self.service.files.draft() as draft:
            draft.write(PDF)
            draft.publish(pdf_name(name))
        args = ConvertArgs(pdf_name(name), mapping, len(PDF), hashlib.sha256(PDF).hexdigest())
        return await engine.enqueue(self.service.convert, args, id=name, meta={"stored": True})

    async def done(self, engine, job, options=None):
        """Work until the job is finished, its retries included."""
        options = options or WorkerOptions(poll_interval=0.02, maintenance=None)
        working = asyncio.create_task(engine.work(options=options))
        try:
            return await engine.wait(job, timeout=15)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    def convert(self, **options):
        async def scenario(engine):
            handle = await self.put(engine, **options)
            job = await self.done(engine, handle)
            return job, await engine.attempts(handle)

        return self.run(scenario)

    def results(self):
        return sorted(each.name for each in self.service.files.list("results"))


@pytest.fixture
def world(tmp_path, gateway):
    return World(tmp_path, gateway.url)


def codes(attempts):
    return [None if each.error is None else each.error.code for each in attempts]


def test_the_gateway_is_sent_the_pdf_the_mapping_and_one_key(world, gateway):
    gateway.script(status(503), GOOD)

    job, _ = world.convert(mapping="metadata")

    assert job.status is JobStatus.COMPLETE
    first, second = gateway.requests
    assert (first.method, first.path, first.query) == ("POST", "/convert", "mapping=metadata")
    assert first.body == PDF
    assert first.headers["content-length"] == str(len(PDF))
    assert first.headers["content-type"] == "application/pdf"
    assert first.headers["idempotency-key"] == "conversion.convert:job1"
    assert second.headers["idempotency-key"] == first.headers["idempotency-key"]


def test_the_result_is_published_under_the_token_of_its_attempt(world, gateway):
    gateway.script(status(500), GOOD)

    job, attempts = world.convert()

    assert world.results() == [xml_name("job1", 2)]
    with world.service.files.open(xml_name("job1", 2)) as file:
        assert file.read() == XML
    assert xml_name("job1", 2) in job.result
    assert codes(attempts) == [ErrorCode.GW_5XX, None]


@pytest.mark.parametrize("refused", [400, 406, 413, 415, 422])
def test_a_refusal_is_final_and_has_the_gateways_reason(world, gateway, refused):
    gateway.script(status(refused, json={"error": {"code": "X", "message": "No such thing."}}))

    job, attempts = world.convert()

    assert (job.status, job.error.code) == (JobStatus.FAILED, ErrorCode.GW_4XX)
    assert (
        job.error.message == "Couldn’t convert this file with the selected mapping. No such thing."
    )
    assert len(attempts) == 1


@pytest.mark.parametrize(
    "body", [b"[" * 4000, b"<html>", b'{"error": 1}', b"x" * 9999, b'{"error":{"message":"a\\nb"}}']
)
def test_a_reason_that_is_not_fit_to_show_is_not_shown(world, gateway, body):
    gateway.script(status(400, body))

    job, _ = world.convert()

    assert job.error.message == "Couldn’t convert this file with the selected mapping."


@pytest.mark.parametrize(
    "behaviour, code",
    [
        (status(500), ErrorCode.GW_5XX),
        (status(502), ErrorCode.GW_5XX),
        (status(501), ErrorCode.GW_5XX),
        (status(302, headers={"Location": "/elsewhere"}), ErrorCode.GW_5XX),
        (status(408), ErrorCode.GW_TIMEOUT),
        (status(429), ErrorCode.RATE_LIMITED),
        (reset(), ErrorCode.GW_UNAVAILABLE),
        (close_early(), ErrorCode.GW_UNAVAILABLE),
        (ok(b"no xml at all", headers=XML_TYPE), ErrorCode.GW_5XX),
        (ok(b"<a><b></a>", headers=XML_TYPE), ErrorCode.GW_5XX),
        (ok(XML, headers={"Content-Type": "text/html"}), ErrorCode.GW_5XX),
        (ok(b"", headers=XML_TYPE), ErrorCode.GW_5XX),
    ],
)
def test_a_transient_failure_is_tried_three_times(world, gateway, behaviour, code):
    gateway.script(behaviour)

    job, attempts = world.convert()

    assert (job.status, job.error.code) == (JobStatus.FAILED, code)
    assert codes(attempts) == [code] * 3
    assert job.is_dead_letter
    assert world.results() == []
    assert list((world.service.files.root / ".drafts").iterdir()) == []


def test_a_refused_connection_is_unavailable(tmp_path):
    world = World(tmp_path, "http://127.0.0.1:9")

    job, attempts = world.convert()

    assert codes(attempts) == [ErrorCode.GW_UNAVAILABLE] * 3
    assert job.error.message == "Converter service is having an issue."


def test_an_attempt_that_takes_too_long_is_a_gateway_timeout(tmp_path, gateway):
    world = World(tmp_path, gateway.url, gateway_timeout=0.1)
    gateway.script(hang())

    job, attempts = world.convert()

    assert (job.status, job.error.code) == (JobStatus.FAILED, ErrorCode.GW_TIMEOUT)
    assert codes(attempts) == [ErrorCode.GW_TIMEOUT] * 3


def test_the_status_of_the_gateway_is_kept_with_the_attempt(world, gateway):
    gateway.script(status(503))

    _, attempts = world.convert()

    assert attempts[0].meta == '{"http_status": 503}'


def test_the_gateways_retry_after_is_observed(world, gateway):
    gateway.script(status(503, retry_after=1), GOOD)

    job, attempts = world.convert()

    assert job.status is JobStatus.COMPLETE
    assert attempts[0].retry_after >= 1


@pytest.mark.parametrize(
    "asked",
    [30 * 86_400, "9" * 20, datetime.now(UTC) + timedelta(days=400)],
    ids=["seconds", "more seconds", "a date"],
)
@pytest.mark.parametrize("code", [408, 429, 503])
def test_the_gateways_retry_after_is_limited_to_an_hour(world, gateway, asked, code):
    gateway.script(status(code, retry_after=asked))

    async def scenario(engine):
        handle = await world.put(engine)
        await engine.work(until_idle=True)
        return await engine.get(handle), await engine.attempts(handle)

    job, attempts = world.run(scenario)

    assert job.status is JobStatus.QUEUED
    assert [each.retry_after for each in attempts] == [3600.0]


def test_a_missing_pdf_is_final(world, gateway):
    async def scenario(engine):
        handle = await world.put(engine)
        world.service.files.delete(pdf_name("job1"))
        return await world.done(engine, handle)

    job = world.run(scenario)

    assert (job.status, job.error.code) == (JobStatus.FAILED, "FILE_NOT_FOUND")
    assert gateway.requests == ()


def breaking(monkeypatch, number, times):
    """Make publishing fail `times` times with the errno `number`."""
    real, left = Draft.publish, [times]

    def publish(self, name):
        if name.startswith("results/") and left[0]:
            left[0] -= 1
            raise OSError(number, "broken", "/a/secret/path")
        real(self, name)

    monkeypatch.setattr(Draft, "publish", publish)


def test_a_result_that_cannot_be_stored_is_tried_once_more(world, gateway, monkeypatch):
    gateway.script(GOOD)
    breaking(monkeypatch, errno.EIO, 1)

    job, attempts = world.convert()

    assert job.status is JobStatus.COMPLETE
    assert codes(attempts) == [ErrorCode.IO_ERROR, None]


def test_a_second_failure_to_store_is_final_and_does_not_count_for_the_gateway(
    world, gateway, monkeypatch
):
    gateway.script(GOOD)
    breaking(monkeypatch, errno.EACCES, 9)

    async def scenario(engine):
        job = await world.done(engine, await world.put(engine))
        return job, await engine.attempts(job.id), await engine.downstreams.get("gateway")

    job, attempts, record = world.run(scenario)

    assert (job.status, job.error.code) == (JobStatus.FAILED, ErrorCode.IO_ERROR)
    assert codes(attempts) == [ErrorCode.IO_ERROR] * 2
    assert "path" not in job.error.message
    assert record.circuit.streak == 0


def test_a_full_disk_is_not_tried_again(world, gateway, monkeypatch):
    gateway.script(GOOD)
    breaking(monkeypatch, errno.ENOSPC, 9)

    job, attempts = world.convert()

    assert (job.error.code, len(attempts)) == (ErrorCode.IO_ERROR, 1)
    assert job.error.message == "There is no room left to store files."


def test_a_result_of_an_attempt_that_could_not_report_is_taken(world, gateway):
    gateway.script(status(500))

    async def scenario(engine):
        handle = await world.put(engine)
        job = await world.done(engine, handle)
        with world.service.files.draft() as draft:
            draft.write(XML)
            draft.publish(xml_name("job1", job.token))
        calls = len(gateway.requests)
        await engine.retry(handle)
        job = await world.done(engine, handle)
        return job, await engine.result(handle), len(gateway.requests) - calls

    job, result, calls = world.run(scenario)

    assert job.status is JobStatus.COMPLETE
    assert result == Converted(xml_name("job1", 3), len(XML), hashlib.sha256(XML).hexdigest())
    assert calls == 0
    assert len(world.results()) == 1


def test_a_cancelled_job_closes_its_call_and_leaves_no_file(world, gateway):
    gateway.script(hang())

    async def scenario(engine):
        handle = await world.put(engine)
        options = WorkerOptions(
            poll_interval=0.02, maintenance=None, extend_every=0.05, lease_seconds=5
        )
        working = asyncio.create_task(engine.work(options=options))
        while not gateway.requests:
            await asyncio.sleep(0.01)
        await engine.cancel(handle)
        job = await engine.wait(handle, timeout=10)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return job

    assert world.run(scenario).status is JobStatus.CANCELLED
    assert list((world.service.files.root / ".drafts").iterdir()) == []


def test_a_gateway_that_keeps_failing_is_held_and_uses_no_more_attempts(tmp_path, gateway):
    world = World(tmp_path, gateway.url)
    gateway.script(status(500))

    async def scenario(engine):
        handles = [await world.put(engine, f"job{number}") for number in range(20)]
        options = WorkerOptions(poll_interval=0.02, maintenance=None, concurrency=2)
        working = asyncio.create_task(engine.work(options=options))
        ticks = Calls(engine.store, "tick")

        async def opened_and_nothing_runs():
            (lane,) = (await engine.stats()).lanes
            state = await engine.downstreams.state("gateway")
            return state.value == "OPEN" and lane.processing == 0

        await until(opened_and_nothing_runs)
        calls = len(gateway.requests)
        await ticks.more(20)
        jobs = [await engine.get(handle) for handle in handles]
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return jobs, calls

    jobs, calls = world.run(scenario)

    assert len(gateway.requests) == calls <= 7
    assert sum(job.attempt_count for job in jobs) == calls
    assert all(job.held for job in jobs if job.status is JobStatus.QUEUED and not job.ready_at)


def test_failing_fast_fails_jobs_claimed_while_the_breaker_is_open(tmp_path, gateway):
    world = World(tmp_path, gateway.url, circuit_mode="fail_fast")
    gateway.script(status(500))

    async def scenario(engine):
        for number in range(10):
            await world.put(engine, f"job{number}")
        options = WorkerOptions(poll_interval=0.02, maintenance=None, concurrency=1)
        working = asyncio.create_task(engine.work(options=options))
        jobs = [await engine.wait(f"job{number}", timeout=15) for number in range(10)]
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return jobs

    jobs = world.run(scenario)

    assert {job.status for job in jobs} == {JobStatus.FAILED}
    assert {job.error.code for job in jobs} == {ErrorCode.GW_5XX}
    assert "refused" in {job.dead_letter for job in jobs}


@pytest.mark.parametrize("answer, well", [(ok(b"{}"), True), (status(503), False)])
def test_the_probe_requests_the_gateways_health(world, gateway, answer, well):
    gateway.script(answer)
    try:
        asyncio.run(world.service.gateway.check())
        found = True
    except Exception:
        found = False

    assert found is well
    assert gateway.requests[0].path == "/health"


def test_a_retry_without_the_pdf_is_refused(world, gateway):
    gateway.script(status(400))

    async def scenario(engine):
        handle = await world.put(engine)
        await world.done(engine, handle)
        world.service.files.delete(pdf_name("job1"))
        with pytest.raises(Permanent) as refused:
            await engine.retry(handle)
        return refused.value

    assert world.run(scenario).code == "FILE_NOT_FOUND"


# -- what the history keeps of each call -----------------------------------------------------------


def test_the_status_of_every_answer_is_kept_also_of_the_one_that_succeeds(world, gateway):
    gateway.script(status(503), status(429), GOOD)

    job, attempts = world.convert()

    assert job.status is JobStatus.COMPLETE
    assert [json.loads(each.meta)["http_status"] for each in attempts] == [503, 429, 200]


def test_only_an_error_that_is_tried_again_promises_that(world, gateway):
    gateway.script(status(500))

    job, attempts = world.convert()

    lines = [each.error.message for each in attempts]
    assert lines[0] == lines[1] == line_of(ErrorCode.GW_5XX)
    assert lines[2] == job.error.message == "Converter service is having an issue."
