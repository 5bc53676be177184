"""The consumer of callbacks where the store is away; the tests in `broker` use it otherwise."""

from holdfast import StoreUnavailable
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

    clock.run(callback_consumer.store_callback(Engine(clock), CALLBACK))
    ((callback, received_at),) = received
    assert (callback, round(received_at - came, 3)) == (CALLBACK, 0.0)
