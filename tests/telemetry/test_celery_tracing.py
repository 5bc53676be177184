"""Spans of Celery tasks."""

import json

import apsw
import pytest
from celery import Celery
from tests.telemetry.test_tracing import Spans, is_child

from holdfast import Engine
from holdfast.messaging.celery import ReliableTask, connect
from holdfast.messaging.celery.process_engine import process_engine_of
from holdfast.telemetry.tracing import Tracing


@pytest.fixture
def spans():
    return Spans()


@pytest.fixture
def app(spans):
    """Return a traced app, whose messages stay in memory."""
    app = Celery("traced", broker="memory://", set_as_current=False)

    @app.task(name="tracing.grade", ignore_result=True, shared=False)
    def grade(fails=False):
        if fails:
            raise ValueError("of 4711")

    Tracing(spans.provider).instrument_celery(app)
    return app


def nothing():
    """Do nothing."""


def published(app):
    """Return the headers of the next message of its queue."""
    with app.connection_for_read() as connection:
        return connection.default_channel.basic_get("celery", no_ack=True).headers


def test_a_task_runs_in_the_trace_of_its_caller(app, spans):
    with spans.provider.get_tracer("t").start_as_current_span("request"):
        app.tasks["tracing.grade"].delay()
    headers = published(app)
    ran = app.tasks["tracing.grade"].apply(task_id="7", headers=headers)

    assert ran.successful()
    sent, attempt = spans.one("send tracing.grade"), spans.one("process tracing.grade")
    assert is_child(sent, spans.one("request"))
    assert is_child(attempt, sent)
    assert attempt.attributes["messaging.message.id"] == "7"


def test_a_task_that_failed_has_the_type_and_not_the_message_of_its_error(app, spans):
    app.tasks["tracing.grade"].apply(kwargs={"fails": True})

    ran = spans.one("process tracing.grade")
    assert ran.attributes["error.type"] == "ValueError"
    assert "4711" not in ran.to_json()


def test_a_message_that_has_a_trace_keeps_it(app, spans):
    """A retried task is published with the headers that it came with."""
    stored = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}

    app.tasks["tracing.grade"].apply_async(headers=stored)

    assert published(app)["traceparent"] == stored["traceparent"]
    assert spans.all == ()


@pytest.mark.parametrize("countdown", [None, 60])
def test_a_reliable_task_takes_its_trace_through_the_outbox(tmp_path, spans, countdown):
    database = tmp_path / "work.db"
    tracing, app = Tracing(spans.provider), Celery("reliable", set_as_current=False)
    connect(app, lambda: tracing.instrument(Engine(f"sqlite:///{database}")))
    task = app.task(name="tracing.grade", base=ReliableTask, shared=False)(nothing)
    engine = process_engine_of(app).get()
    if countdown is None:
        with apsw.Connection(str(database)) as connection:
            task.apply_in_transaction(connection)
    else:
        task.apply_async(countdown=countdown)
    (message,) = engine.outbox.list().messages
    process_engine_of(app).close()

    (sent,) = spans.all
    headers = json.loads(message.headers)
    assert headers["task"] == "tracing.grade"
    assert headers["traceparent"].split("-")[1] == f"{sent.context.trace_id:032x}"


def test_tasks_of_another_app_are_left_alone(app, spans):
    other = Celery("other", set_as_current=False)
    other.task(name="other", shared=False)(nothing).apply()

    assert spans.all == ()
