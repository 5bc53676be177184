"""A reliable task outside of a worker, and tasks that are called in a transaction."""

import json
from datetime import UTC, datetime, timedelta

import apsw
import pytest
from celery import Celery
from celery.exceptions import Retry

from holdfast import Engine
from holdfast.messaging.celery import NotConnected, ReliableTask, connect
from holdfast.messaging.celery.task import TaskEvent
from holdfast.outbox import Release


@pytest.fixture
def app():
    app = Celery("shop", set_as_current=False, broker="memory://")
    app.conf.task_routes = {"grade": {"queue": "grading.request"}}
    yield app
    with app.connection_for_write() as connection:  # this broker outlives the app
        connection.SimpleQueue("grading.request").clear()
    app.close()


@pytest.fixture
def grade(app):
    @app.task(base=ReliableTask, bind=True, name="grade", shared=False)
    def grade(self, text):
        if text == "later":
            raise self.retry(exc=ValueError("not yet"), countdown=1)
        self.complete_in(None)
        return text.upper()

    return grade


def test_a_task_that_is_called_directly_is_the_plain_function(grade):
    assert grade("essay") == "ESSAY"
    with pytest.raises(ValueError, match="not yet"):
        grade("later")


def test_a_task_that_runs_eagerly_needs_no_engine(grade):
    assert grade.apply(("essay",)).get() == "ESSAY"


def test_the_settings_of_a_reliable_task_lose_no_message(grade):
    assert (grade.acks_late, grade.reject_on_worker_lost) == (True, True)
    assert (grade.acks_on_failure, grade.acks_on_timeout) == (True, False)
    assert grade.policy.max_attempts == 4
    event = TaskEvent(Release.DEAD, "BAD", "x", 1, "r", "a")
    assert list(grade.messages_for(event)) == []


def test_a_retry_in_a_worker_says_when_and_sends_nothing(grade):
    grade.push_request(id="t1", called_directly=False, is_eager=False, args=[], kwargs={})
    try:
        with pytest.raises(Retry) as caught:
            grade.retry(countdown=2400)
        assert caught.value.when == 2400
        assert isinstance(grade.retry(throw=False), Retry)
        with pytest.raises(TypeError, match="the arguments that it has"):
            grade.retry(kwargs={"text": "other"})
        assert grade.idempotency_key == "grade:t1"
    finally:
        grade.pop_request()


def test_an_app_without_an_engine_is_named(grade):
    with pytest.raises(NotConnected, match=r"'shop' has no engine"):
        grade.apply_in_transaction(None, ("essay",))


def test_a_call_in_a_transaction_is_a_message_of_the_outbox(app, grade, tmp_path):
    path = tmp_path / "work.db"
    process = connect(app, lambda: Engine(f"sqlite:///{path}"))
    process.get()
    connection = apsw.Connection(str(path))
    with connection:
        task_id = grade.apply_in_transaction(connection, ("essay",), aggregate_id="s1", delay=60)
    connection.execute("BEGIN")
    assert grade.apply_in_transaction(connection, ("other",), task_id="t2") == "t2"
    connection.execute("ROLLBACK")
    connection.close()
    (message,) = process.get().outbox.list().messages
    process.close()
    assert (message.aggregate_id, message.message_type) == ("s1", "grading.request")
    assert json.loads(message.payload)[0] == ["essay"]
    headers = json.loads(message.headers)
    assert (headers["task"], headers["id"], headers["retries"]) == ("grade", task_id, 0)
    assert headers["correlation_id"] == task_id
    assert message.due_at == message.created_at + 60


@pytest.fixture
def connected(app, tmp_path):
    process = connect(app, lambda: Engine(f"sqlite:///{tmp_path}/work.db"))
    yield process
    process.close()


def stored(process):
    """Return the only message of the outbox with its headers and its arguments."""
    (message,) = process.get().outbox.list().messages
    return message, json.loads(message.headers), json.loads(message.payload)


def queued(app, name):
    """Return how many messages a queue of the broker holds."""
    with app.connection_for_read() as connection:
        return connection.SimpleQueue(name).qsize()


def test_a_countdown_waits_in_the_database_and_not_in_a_worker(app, grade, connected):
    result = grade.apply_async(("essay",), countdown=3600, eta=None, headers={"trace": "x"})
    message, headers, (args, kwargs, _) = stored(connected)
    assert (args, kwargs) == (["essay"], {})
    assert (message.message_type, message.aggregate_id) == ("grading.request", result.id)
    assert message.due_at == pytest.approx(message.created_at + 3600)
    assert (headers["id"], headers["trace"], headers["eta"]) == (result.id, "x", None)
    assert queued(app, "grading.request") == 0


@pytest.mark.parametrize("form", [lambda eta: eta, lambda eta: eta.isoformat()])
def test_an_eta_waits_in_the_database(grade, connected, form):
    eta = datetime.now(UTC) + timedelta(hours=2)
    grade.apply_async(kwargs={"text": "essay"}, task_id="t1", eta=form(eta), queue="other")
    message, headers, (_, kwargs, _) = stored(connected)
    assert (kwargs, headers["id"], message.message_type) == ({"text": "essay"}, "t1", "other")
    assert message.due_at == pytest.approx(eta.timestamp(), abs=5)


def test_a_delayed_signature_keeps_its_links_and_limits(grade, connected):
    link = grade.s("next")
    grade.s("essay").set(countdown=60, link=link, expires=600, time_limit=9).apply_async()
    _, headers, (_, _, embed) = stored(connected)
    assert [each["args"] for each in embed["callbacks"]] == [["next"]]
    assert headers["timelimit"] == [9, None]
    assert headers["expires"] > datetime.now(UTC).isoformat()


def test_a_call_without_a_delay_is_published_by_celery(app, grade, connected):
    past = datetime.now(UTC) - timedelta(hours=1)
    grade.delay("essay")
    grade.apply_async(("essay",), countdown=0)
    grade.apply_async(("essay",), eta=past)
    assert connected.get().outbox.list().messages == ()
    assert queued(app, "grading.request") == 3


def test_a_delayed_call_is_checked_when_it_is_made(app, grade, connected):
    with pytest.raises(TypeError, match="missing 1 required"):
        grade.apply_async((), countdown=60)
    with pytest.raises(TypeError, match="the outbox, which has no 'priority'"):
        grade.apply_async(("essay",), countdown=60, priority=3)
    app.conf.task_always_eager = True
    assert grade.apply_async(("essay",), countdown=60).get() == "ESSAY"


def test_a_delayed_call_needs_an_engine(grade):
    with pytest.raises(NotConnected, match=r"'shop' has no engine"):
        grade.apply_async(("essay",), countdown=60)
