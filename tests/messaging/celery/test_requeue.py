"""Messages that go back to their queue: none is lost, however often."""

import pytest
from celery import Celery
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded
from kombu.entity import Queue
from tests.support.celery_worker import wait_for

from holdfast.messaging.celery import ReliableTask, requeue, task
from holdfast.testing import VirtualClock

LIMIT = 5
"""Deliveries that the queue allows, as RabbitMQ 4 does by default with 20."""


@pytest.fixture
def clock(monkeypatch):
    clock = VirtualClock()
    monkeypatch.setattr(task, "SYSTEM_CLOCK", clock)
    return clock


def unconnected(broker, queue):
    """Return a task of an app that nobody has called `connect` for."""
    app = Celery("unconnected", set_as_current=False, broker=broker)
    app.conf.task_default_queue = queue
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": LIMIT}
    app.conf.task_queues = [Queue(queue, queue_arguments=arguments)]

    @app.task(base=ReliableTask, name="send", shared=False)
    def send(order):
        raise AssertionError("it must not run")

    return send


def received(found, queue, headers):
    """Run a message as a Celery worker does, and return the exception that answers it."""
    found.push_request(
        id="t1", args=["o1"], kwargs={}, called_directly=False, is_eager=False, retries=0,
        headers=headers, delivery_info={"exchange": "", "routing_key": queue},
    )  # fmt: skip
    try:
        with pytest.raises((Ignore, Reject)) as caught:
            found("o1")
        return caught.value
    finally:
        found.pop_request()


def test_a_message_of_a_task_without_an_engine_goes_back_after_a_pause(clock, caplog):
    answer = received(unconnected("memory://", "orders"), "orders", None)
    assert isinstance(answer, Reject)
    assert answer.requeue
    assert clock.monotonic() >= 2
    assert "message t1 goes back: the Celery app 'unconnected'" in caplog.text


def test_a_time_limit_during_the_pause_does_not_acknowledge_the_message(clock, monkeypatch):
    def interrupted(_):
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(clock, "sleep", interrupted)
    assert isinstance(received(unconnected("memory://", "orders"), "orders", None), Reject)


def test_a_copy_that_the_broker_does_not_take_leaves_the_message(clock, monkeypatch):
    def away(*_):
        raise ConnectionError("the broker is away")

    monkeypatch.setattr(requeue, "publish_now", away)
    answer = received(unconnected("memory://", "orders"), "orders", {"x-delivery-count": 3})
    assert isinstance(answer, Reject)


def test_the_pause_grows_with_the_deliveries_that_the_queue_counts(clock):
    found = unconnected("memory://", "orders")
    pauses = []
    for counted in (0, 1, 2):
        before = clock.monotonic()
        received(found, "orders", {"x-delivery-count": counted})
        pauses.append(clock.monotonic() - before)
    assert pauses == [2, 4, 8]


def test_a_quorum_queue_never_gives_up_a_message_that_goes_back(clock, rabbitmq_server, queue_name):
    found = unconnected(rabbitmq_server.url(), queue_name)
    with found.app.connection_for_write() as connection:
        channel = connection.channel()
        found.app.amqp.queues[queue_name](channel).declare()
        found.apply_async(("o1",), headers={"trace": "x"})
        queue = Queue(queue_name, channel=channel)
        for number in range(4 * LIMIT):
            message = wait_for(lambda: queue.get(no_ack=False))
            custom = {"x-delivery-count": message.headers.get("x-delivery-count"), "trace": "x"}
            assert message.headers["trace"] == "x"
            assert message.decode()[0] == ["o1"], f"delivery {number}"
            if isinstance(received(found, queue_name, custom), Reject):
                message.requeue()
            else:
                message.ack()
        assert wait_for(lambda: queue.get(no_ack=False)).headers["trace"] == "x"
    found.app.close()
