"""Traces from the code that enqueues a job to the calls of its attempts."""

import asyncio
import json
import subprocess
import sys

import apsw
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import App, Engine, JobContext, JobRequest, Permanent, RetryPolicy, RetryService
from holdfast.messaging import JobPublisher
from holdfast.telemetry.tracing import Tracing
from holdfast.testing import VirtualClock, virtual_engine
from holdfast.trace_port import TraceHeaders

UNSAMPLED = "00-" + "1" * 32 + "-" + "2" * 16 + "-00"

app = App("shop")


@app.job(queue="mail")
async def order(ctx: JobContext, how: str) -> str | None:
    if how == "fails":
        raise Permanent("GW_4XX", "the card of Ann was refused")
    if how == "crashes":
        raise ZeroDivisionError("by the card of Ann")
    if how == "follows":
        await ctx.enqueue(order, "fine")
    if how == "calls":
        await ctx.engine.calls.run("mill:4711", called)
    return trace.get_current_span().get_span_context().trace_id.to_bytes(16, "big").hex()


@app.job()
def blocking(ctx: JobContext) -> bool:
    return trace.get_current_span().get_span_context().is_valid


async def called():
    return None


class Spans:
    """A provider whose finished spans can be read."""

    def __init__(self, sampler=ALWAYS_ON, *, whole=None):
        """`sampler` decides on new traces; `whole` is asked for every span in its place."""
        self._exporter = InMemorySpanExporter()
        chosen = ParentBased(sampler) if whole is None else whole
        self.provider = TracerProvider(sampler=chosen, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def all(self):
        return self._exporter.get_finished_spans()

    def named(self, name):
        return [span for span in self.all if span.name == name]

    def one(self, name):
        (span,) = self.named(name)
        return span


@pytest.fixture
def spans():
    return Spans()


def run(tmp_path, spans, work, *, traced=True, **options):
    """Await `work(engine)` on a traced engine."""

    async def within():
        tmp_path.mkdir(exist_ok=True)
        engine = Engine(f"sqlite:///{tmp_path}/work.db", apps=[app])
        if traced:
            Tracing(spans.provider, **options).instrument(engine)
        async with engine:
            return await work(engine)

    return asyncio.run(within())


async def worked(engine, how, **options):
    job = await engine.enqueue(order, how, **options)
    await engine.work(until_idle=True)
    return await engine.get(job.id)


def is_child(span, parent):
    return span.parent.span_id == parent.context.span_id and (
        span.context.trace_id == parent.context.trace_id
    )


def test_an_attempt_is_in_the_trace_of_the_code_that_enqueued_its_job(tmp_path, spans):
    async def work(engine):
        with spans.provider.get_tracer("t").start_as_current_span("request"):
            job = await engine.enqueue(order, "fine")
        await engine.work(until_idle=True)
        return job

    job = run(tmp_path, spans, work)

    request, sent, attempt = (
        spans.one(name) for name in ("request", "send shop.order", "process shop.order")
    )
    assert is_child(sent, request)
    assert is_child(attempt, sent)
    assert sent.kind is SpanKind.PRODUCER
    assert attempt.kind is SpanKind.CONSUMER
    assert dict(attempt.attributes) == {
        "messaging.system": "holdfast",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "shop.order",
        "messaging.consumer.group.name": "mail",
        "messaging.message.id": job.id,
        "holdfast.attempt": 1,
    }


def test_the_handler_runs_inside_the_span_of_its_attempt(tmp_path, spans):
    job = run(tmp_path, spans, lambda engine: worked(engine, "fine"))

    trace_id = spans.one("process shop.order").context.trace_id
    assert json.loads(job.result) == trace_id.to_bytes(16, "big").hex()


def test_a_handler_in_a_thread_runs_inside_the_span_too(tmp_path, spans):
    async def work(engine):
        job = await engine.enqueue(blocking)
        await engine.work(until_idle=True)
        return await engine.result(job)

    assert run(tmp_path, spans, work) is True


def test_a_job_of_a_job_is_in_the_same_trace(tmp_path, spans):
    run(tmp_path, spans, lambda engine: worked(engine, "follows"))

    first, second = spans.named("process shop.order")
    assert is_child(second, first)


def test_a_call_to_a_downstream_is_a_span_inside_the_attempt(tmp_path, spans):
    run(tmp_path, spans, lambda engine: worked(engine, "calls"))

    call = spans.one("call mill")
    assert is_child(call, spans.one("process shop.order"))
    assert call.attributes["holdfast.downstream"] == "mill:4711"


@pytest.mark.parametrize("how, code", [("fails", "GW_4XX"), ("crashes", "ZeroDivisionError")])
def test_a_failed_attempt_has_the_code_and_not_the_message_of_its_error(tmp_path, spans, how, code):
    run(tmp_path, spans, lambda engine: worked(engine, how))

    for attempt in spans.named("process shop.order"):
        assert attempt.status.status_code is StatusCode.ERROR
        assert attempt.attributes["error.type"] == code
        assert "Ann" not in attempt.to_json()


def test_the_meta_of_the_caller_is_kept_and_has_the_trace_beside_it(tmp_path, spans):
    job = run(tmp_path, spans, lambda engine: worked(engine, "fine", meta={"file": "a.pdf"}))

    meta = json.loads(job.meta)
    assert meta["file"] == "a.pdf"
    sent = spans.one("send shop.order").context
    assert meta["traceparent"].startswith(f"00-{sent.trace_id:032x}-{sent.span_id:016x}-")


def test_many_jobs_are_sent_in_one_span(tmp_path, spans):
    async def work(engine):
        await engine.enqueue_many([JobRequest(order, "fine"), JobRequest(order, "fine")])
        await engine.work(until_idle=True)

    run(tmp_path, spans, work)

    sent = spans.one("send shop.order")
    assert sent.attributes["messaging.batch.message_count"] == 2
    assert all(is_child(each, sent) for each in spans.named("process shop.order"))


def test_a_trace_that_is_not_sampled_makes_no_spans_and_tells_so_inside(tmp_path):
    spans = Spans(ALWAYS_OFF)
    job = run(tmp_path, spans, lambda engine: worked(engine, "fine"))

    assert spans.all == ()
    traceparent = json.loads(job.meta)["traceparent"]
    assert int(traceparent[-2:], 16) & trace.TraceFlags.SAMPLED == 0
    assert traceparent.split("-")[1] == json.loads(job.result)


def test_an_attempt_that_is_not_sampled_sees_the_tracestate_of_its_job():
    spans, seen = Spans(), []
    noting = App("noting")

    @noting.job()
    async def note(ctx: JobContext) -> None:
        span = trace.get_current_span()
        seen.append((span.get_span_context(), repr(span)))

    engine = Tracing(spans.provider).instrument(virtual_engine([noting]))
    with engine.blocking() as opened:
        opened.enqueue(note, meta={"traceparent": UNSAMPLED, "tracestate": "vendor=x"})
        opened.run_until_idle()

    ((context, shown),) = seen
    assert f"0x{context.trace_id:032x}" in shown
    assert context.trace_id == int("1" * 32, 16)
    assert context.trace_state.get("vendor") == "x"
    assert spans.named("process noting.note") == []


@pytest.mark.parametrize(
    "sampler", [ALWAYS_ON, ParentBased(ALWAYS_OFF, remote_parent_not_sampled=ALWAYS_ON)]
)
def test_a_sampler_that_is_asked_may_record_a_job_that_was_not_sampled(tmp_path, sampler):
    spans, meta = Spans(whole=sampler), {"traceparent": UNSAMPLED}

    def work(engine):
        return worked(engine, "fine", meta=meta)

    run(tmp_path / "kept", spans, work)
    assert spans.named("process shop.order") == []
    job = run(tmp_path / "asked", spans, work, keep_unsampled=False)
    attempt = spans.one("process shop.order")
    assert attempt.parent.span_id == int("2" * 16, 16)
    assert json.loads(job.result) == "1" * 32


@pytest.mark.parametrize(
    "sampler, keep", [(ParentBased(ALWAYS_ON), True), (ALWAYS_OFF, False)], ids=["kept", "asked"]
)
def test_spans_inside_an_attempt_that_is_not_sampled_are_not_recorded(sampler, keep):
    spans, seen = Spans(whole=sampler), []
    tracer, inner = spans.provider.get_tracer("t"), App("inner")

    @inner.job()
    async def note(ctx: JobContext) -> None:
        with tracer.start_as_current_span("inside") as span:
            seen.append((span.is_recording(), span.get_span_context().trace_id))

    tracing = Tracing(spans.provider, keep_unsampled=keep)
    engine = tracing.instrument(virtual_engine([inner]))
    with engine.blocking() as opened:
        opened.enqueue(note, meta={"traceparent": UNSAMPLED})
        opened.run_until_idle()

    assert seen == [(False, int("1" * 32, 16))]
    assert spans.named("inside") == []


def test_the_span_of_an_attempt_that_is_not_sampled_can_be_used_as_any_other():
    spans, seen = Spans(), []
    using = App("using")

    @using.job()
    async def use(ctx: JobContext) -> None:
        span = trace.get_current_span()
        with span:
            span.set_attribute("a", 1)
            span.set_attributes({"b": 2})
            span.add_event("c")
            span.add_link(span.get_span_context())
            span.update_name("d")
            span.set_status(StatusCode.OK)
            span.record_exception(ValueError())
        span.end()
        seen.append((span.is_recording(), span.get_span_context(), repr(span)))

    engine = Tracing(spans.provider).instrument(virtual_engine([using]))
    with engine.blocking() as opened:
        opened.enqueue(use, meta={"traceparent": UNSAMPLED})
        opened.run_until_idle()

    ((recording, context, shown),) = seen
    assert recording is False
    assert context.is_valid
    assert context.is_remote
    assert not context.trace_flags.sampled
    assert shown == repr(trace.NonRecordingSpan(context))


@pytest.mark.parametrize(
    "bad",
    [
        "00-zz-1-00",
        "00-zz-0",
        "zz-" + "1" * 32 + "-" + "2" * 16 + "-00",
        "00-" + "1_" * 16 + "-" + "2" * 16 + "-01",
        "00-" + "0" * 32 + "-" + "0" * 16 + "-00",
        7,
    ],
)
def test_a_traceparent_that_cannot_be_read_begins_a_new_trace(tmp_path, spans, bad):
    job = run(tmp_path, spans, lambda engine: worked(engine, "fine", meta={"traceparent": bad}))

    assert job.status == "complete"
    assert spans.one("process shop.order").parent is None


def test_an_unreadable_traceparent_beside_a_tracestate_begins_a_new_trace(tmp_path, spans):
    meta = {"traceparent": "00-zz-0", "tracestate": "vendor=x"}
    run(tmp_path, spans, lambda engine: worked(engine, "fine", meta=meta))

    assert spans.one("process shop.order").parent is None


def test_a_tracestate_is_carried_too(spans):
    parent = Tracing(spans.provider).parent_of(
        TraceHeaders("00-" + "1" * 32 + "-" + "2" * 16 + "-01", "vendor=x")
    )

    found = trace.get_current_span(parent).get_span_context()
    assert found.trace_state.get("vendor") == "x"
    assert Tracing(spans.provider).parent_of(TraceHeaders()) is None


def test_without_instrument_jobs_carry_nothing(tmp_path, spans):
    job = run(tmp_path, spans, lambda engine: worked(engine, "fine"), traced=False)

    assert job.meta is None
    assert spans.all == ()


def test_the_middleware_of_the_app_runs_inside_the_span(spans):
    seen = []

    async def noted(ctx, call_next):
        seen.append(trace.get_current_span().get_span_context().is_valid)
        return await call_next()

    noting = App("noting", middleware=[noted])

    @noting.job()
    async def work(ctx: JobContext) -> None: ...

    engine = Tracing(spans.provider).instrument(virtual_engine([noting]))
    with engine.blocking() as opened:
        opened.enqueue(work)
        opened.run_until_idle()

    assert seen == [True]


def test_a_message_of_the_outbox_carries_its_trace_to_the_job_that_takes_it(tmp_path, spans):
    async def work(engine):
        with apsw.Connection(str(tmp_path / "work.db")) as connection:
            await engine.outbox.add(connection, "order-7", "order.placed", "fine")
        (message,) = (await engine.outbox.list()).messages
        await engine.relay(JobPublisher(engine, {"order.placed": order})).run(until_idle=True)
        await engine.work(until_idle=True)
        return message

    message = run(tmp_path, spans, work)

    sent = spans.one("send order.placed")
    assert f"{sent.context.trace_id:032x}" in message.headers
    assert is_child(spans.one("process shop.order"), sent)


# -- guarded calls ---------------------------------------------------------------------------------


def test_a_guarded_call_is_a_span_of_its_length(spans):
    clock = VirtualClock()
    service = RetryService(clock=clock, listeners=[Tracing(spans.provider, clock=clock)])
    errors = iter([ConnectionError("to 4711")])

    def flaky():
        for error in errors:
            raise error
        clock.advance(2)

    with spans.provider.get_tracer("t").start_as_current_span("outer"):
        service.execute_sync(flaky, RetryPolicy(), "host:a.example")

    call, outer = spans.one("call host"), spans.one("outer")
    assert is_child(call, outer)
    assert call.attributes["holdfast.attempts"] == 2
    assert call.end_time - call.start_time >= 2_000_000_000
    assert call.status.status_code is StatusCode.UNSET
    (failed,) = outer.events
    assert failed.attributes["error.type"] == "ConnectionError"
    assert "4711" not in outer.to_json()


def test_outside_of_a_span_a_failed_attempt_is_noted_nowhere(spans):
    service = RetryService(listeners=[Tracing(spans.provider)])

    service.execute_sync(lambda: 1 / 0, RetryPolicy(), "mill")

    assert [span.events for span in spans.all] == [()]


def test_a_guarded_call_that_failed_says_why_it_ended(spans):
    service = RetryService(listeners=[Tracing(spans.provider)])

    service.execute_sync(lambda: 1 / 0, RetryPolicy(), "mill")

    call = spans.one("call mill")
    assert call.status.status_code is StatusCode.ERROR
    assert call.attributes["error.type"] == "PERMANENT"


# -- imports ---------------------------------------------------------------------------------------


def output_of(program):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_nothing_is_imported_while_tracing_is_off():
    program = (
        "import sys, holdfast, holdfast.jobs.worker.worker, holdfast.messaging\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert output_of(program) == "[]\n"


def test_without_the_library_the_error_names_the_extra():
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try:\n    import holdfast.telemetry.tracing\n"
        "except ImportError as error:\n    print(error)"
    )
    assert "pip install 'holdfast[otel]'" in output_of(program)
