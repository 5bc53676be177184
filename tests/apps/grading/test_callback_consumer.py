"""The consumer of callbacks where the store is away; the tests in `broker` use it otherwise."""

import pytest

from holdfast import StoreUnavailable
from holdfast.messaging import Delivery
from holdfast.testing import VirtualClock
from holdfast_grading import callback_consumer
from holdfast_grading.messages import CallbackError, GradingCallback

CALLBACK = GradingCallback(
    request_id="r1", submission_id="s1", status="error", error=CallbackError("X", "")
)


class Engine:
    """An engine with nothing but a clock."""

    def __init__(self, clock):
        self.clock = clock


def test_a_callback_waits_for_the_store_and_counts_from_when_it_came(monkeypatch):
    clock = VirtualClock()
    came, received = clock.wall(), []

    async def store_time(engine):
        return clock.wall()

    async def receive(engine, callback, received_at):
        if clock.wall() < came + 100:
            raise StoreUnavailable("the database does not answer")
        received.append((callback, received_at))

    monkeypatch.setattr(callback_consumer, "store_time", store_time)
    monkeypatch.setattr(callback_consumer.callbacks, "receive", receive)

    clock.run(callback_consumer.store_callback(Engine(clock), CALLBACK, clock.monotonic() - 7))
    ((callback, received_at),) = received
    assert (callback, round(received_at - came, 3)) == (CALLBACK, -7.0)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"requestId": "r1", "submissionId": "s1"}', ("r1", "s1")),
        (b'{"requestId": 7, "submissionId": "\\ud800"}', ("m1", "of the relay")),
        (b'["r1"]', ("m1", "of the relay")),
        (b"\xff", ("m1", "of the relay")),
        (b"[" * 100_000, ("m1", "of the relay")),
    ],
)
def test_a_dead_letter_names_its_request_and_its_submission_as_far_as_it_can(body, names):
    delivery = Delivery(body, "m1", None, {"aggregate_id": "of the relay"}, redelivered=False)
    found = callback_consumer.names_in(delivery)
    assert (found["requestId"], found["submissionId"]) == names
