"""One delivery of a task in this process: what is in the store when the broker gets its answer."""

import apsw
import pytest
from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded
from tests.support.celery_shop import POLICY

from holdfast import CircuitOpenError, Permanent
from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.store_values import StoreUnavailable
from holdfast.messaging.celery import AlreadyHandled, delivery
from holdfast.outbox import MessageDraft, RequestClaim, StartState
from holdfast.outbox.client import LONGEST_DELAY
from holdfast.resilience.service import RetryService

LARGE = "x" * 2_000_000
"""More than the outbox takes."""


def test_a_request_that_was_handled_is_ignored(shop):
    assert shop.deliver() == "done"
    with pytest.raises(Ignore, match="o1 is handled"):
        shop.deliver()
    assert shop.messages() == []


def test_a_task_that_ignores_its_request_has_handled_it(shop):
    shop.raising(Ignore())
    with pytest.raises(Ignore):
        shop.deliver()
    assert shop.process.get().inbox.handled("o1", consumer="send")


def test_a_failure_leaves_a_message_of_the_next_round_and_then_a_dead_letter(shop):
    shop.raising(ConnectionError("reset"))
    with pytest.raises(Retry):
        shop.deliver()
    ((queue, headers, delay),) = shop.messages()
    assert (queue, delay, headers["task"], headers["trace"]) == ("orders", 30.0, "send", "x")
    assert (headers["holdfast_round"], headers["retries"]) == (1, 1)
    with pytest.raises(Ignore, match="o1 is stale"):
        shop.deliver()
    with pytest.raises(ConnectionError):
        shop.deliver(round_=1)
    _, (queue, headers, delay) = shop.messages()
    assert (queue, headers["originalQueue"], delay) == ("orders.dlq", "orders", 0.0)
    assert (headers["attemptsMade"], headers["requestId"]) == (2, "o1")
    assert (headers["lastError"], headers["holdfast_round"]) == ("ConnectionError: reset", 1)


def test_a_task_knows_the_number_of_its_attempt(shop):
    def body(task):
        seen.append(task.attempt)
        raise ConnectionError("reset")

    seen, shop.body = [], body
    with pytest.raises(Retry):
        shop.deliver()
    with pytest.raises(ConnectionError):
        shop.deliver(round_=1)
    assert seen == [1, 2]


def test_a_duplicate_of_a_running_request_comes_back_after_its_lease(shop):
    shop.process.get().handling.begin("send", "o1", lease_seconds=20)
    with pytest.raises(Ignore, match="o1 is running"):
        shop.deliver()
    ((queue, headers, delay),) = shop.messages()
    assert (queue, headers["holdfast_round"]) == ("orders", 0)
    assert 10 < delay <= 20


def test_a_request_that_took_down_every_worker_is_not_run_again(shop):
    handling = shop.process.get().handling
    for _ in range(POLICY.max_attempts):
        assert handling.begin("send", "o1", lease_seconds=0).state is StartState.CLAIMED
    shop.raising(AssertionError("it must not run"))
    with pytest.raises(Permanent, match="died in every attempt"):
        shop.deliver()
    ((_, headers, _),) = shop.messages()
    assert (headers["failureReason"], headers["attemptsMade"]) == ("WORKER_LOST", 2)


@pytest.mark.parametrize("kwargs", [{"other": 1}, {"order": "x" * 300}, {}])
def test_arguments_that_do_not_fit_are_a_dead_letter_at_once(shop, kwargs):
    with pytest.raises(Permanent):
        shop.deliver(kwargs=kwargs)
    ((queue, headers, _),) = shop.messages()
    assert (queue, headers["failureReason"]) == ("orders.dlq", "VALIDATION_ERROR")


def test_a_name_that_the_task_lacks_is_a_dead_letter(shop):
    shop.task.aggregate_argument = "customer"
    with pytest.raises(Permanent, match="no argument 'customer'"):
        shop.deliver()


def test_a_process_that_is_asked_to_end_leaves_its_next_attempt(shop):
    shop.raising(SystemExit(3))
    with pytest.raises(SystemExit):
        shop.deliver()
    assert [queue for queue, _, _ in shop.messages()] == ["orders"]


def test_a_delivery_that_was_taken_over_leaves_nothing(shop, quick):
    def body(task):
        shop.process.get().handling.extend([claims[0]], -1)
        shop.process.get().handling.begin("send", "o1")
        raise ConnectionError("reset")

    claims = []
    begin = shop.process.get().handling.begin

    def noting(*args, **kwargs):
        answer = begin(*args, **kwargs)
        claims.append(answer.claim)
        return answer

    shop.process.get().handling.begin = noting
    shop.body = body
    with pytest.raises(Reject) as caught:
        shop.deliver()
    assert caught.value.requeue
    assert shop.messages() == []
    with pytest.raises(Ignore, match="o1 is running"):
        shop.deliver()


def test_a_request_that_the_store_has_forgotten_is_delivered_again(shop, quick):
    def body(task):
        with apsw.Connection(str(shop.path)) as connection:
            connection.execute("DELETE FROM holdfast_handling")
        raise ConnectionError("reset")

    shop.body = body
    with pytest.raises(Reject) as caught:
        shop.deliver()
    assert caught.value.requeue
    shop.body = lambda task: "done"
    assert shop.deliver() == "done"


def test_an_open_breaker_puts_the_task_off_and_counts_no_attempt(shop):
    shop.task.downstream = "bank"
    shop.task.messages_for = lambda event: [MessageDraft("a", "answers", {"code": event.code})]
    shop.raising(ConnectionError("reset"))
    with pytest.raises(Retry):
        shop.deliver("o1")
    with pytest.raises(Retry, match="circuit is open"):
        shop.deliver("o2")
    found = shop.messages()
    assert sorted(queue for queue, _, _ in found) == ["answers", "answers", "orders", "orders"]
    (delay,) = [delay for _, headers, delay in found if headers.get("retries") == 0]
    assert 50 < delay <= 80
    claim = shop.process.get().handling.begin("send", "o2", round_=1).claim
    assert claim.attempt == 1


def test_a_breaker_that_refuses_a_call_of_the_task_puts_it_off_and_counts_no_attempt(shop):
    shop.task.messages_for = lambda event: [MessageDraft("a", "answers", {}, {"why": event.why})]
    calls = shop.process.get().calls
    calls.declare("bank", POLICY.breaker)
    calls.count("bank", POLICY.breaker, "GW_5XX")

    async def pay():
        raise AssertionError("it must not be called")

    shop.body = lambda task: calls.run("bank", pay)
    for round_ in range(POLICY.max_attempts + 1):
        with pytest.raises(Retry, match="circuit is open"):
            shop.deliver(round_=round_)
    found = shop.messages()
    assert [headers["why"] for queue, headers, _ in found if queue == "answers"] == ["hold"] * 3
    delays = [delay for queue, _, delay in found if queue == "orders"]
    assert len(delays) == 3
    assert all(50 < delay <= 80 for delay in delays)


def test_a_breaker_without_a_known_end_puts_a_task_off_for_the_cooldown(shop):
    shop.raising(CircuitOpenError("bank"))
    with pytest.raises(Retry):
        shop.deliver()
    ((_, _, delay),) = shop.messages()
    assert 60 <= delay <= 80


def test_a_task_that_ignores_its_request_is_no_success_of_its_downstream(shop):
    shop.task.downstream = "bank"
    reported = []
    shop.process.get().calls.report = lambda *given: reported.append(given)
    shop.raising(Ignore())
    with pytest.raises(Ignore):
        shop.deliver()
    ((_, _, verdict, _),) = reported
    assert verdict is Verdict.NEITHER


def test_the_lease_is_extended_while_the_breaker_is_asked(shop):
    def admit(*asked):
        leased.append(dict(shop.process._leases._running))
        return ask(*asked)

    leased = []
    shop.task.downstream = "bank"
    calls = shop.process.get().calls
    ask, calls.admit = calls.admit, admit
    assert shop.deliver() == "done"
    assert [claim.request_id for claim in leased[0]] == ["o1"]


def test_a_call_that_cannot_be_counted_does_not_fail_the_task(shop, caplog):
    def broken(*_):
        raise StoreUnavailable("gone")

    shop.task.downstream = "bank"
    shop.process.get().calls.report = broken
    assert shop.deliver() == "done"
    assert "a call to bank was not counted: gone" in caplog.text


def test_a_failure_after_the_tasks_own_commit_is_not_retried(shop):
    def body(task):
        connection = apsw.Connection(str(shop.path))
        with connection:
            task.complete_in(connection)
        connection.close()
        raise ConnectionError("reset")

    shop.body = body
    with pytest.raises(ConnectionError):
        shop.deliver()
    assert shop.messages() == []


@pytest.mark.parametrize("error", [ConnectionError("the commit failed"), None])
def test_a_transaction_that_was_rolled_back_after_completing_is_tried_again(shop, error):
    def body(task):
        connection = apsw.Connection(str(shop.path))
        connection.execute("BEGIN")
        task.complete_in(connection)
        connection.execute("ROLLBACK")
        connection.close()
        if error is not None:
            raise error

    shop.body = body
    with pytest.raises(Retry):
        shop.deliver()
    assert [queue for queue, _, _ in shop.messages()] == ["orders"]
    shop.body = lambda task: "done"
    assert shop.deliver(round_=1) == "done"


def test_a_request_that_another_delivery_has_handled_rolls_the_transaction_back(shop):
    shop.process.get()
    connection = apsw.Connection(str(shop.path))

    def body(task):
        shop.process.get().handling.finish(RequestClaim("send", "o1", 0, 1, 1))
        with connection:
            connection.execute("CREATE TABLE effects (n)")
            task.complete_in(connection)

    shop.body = body
    with pytest.raises(AlreadyHandled):
        shop.deliver("o1")
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE name = 'effects'").fetchall()
    connection.close()
    assert tables == []


def test_a_store_that_does_not_answer_sends_the_message_back(shop, quick):
    def broken(*_, **__):
        raise StoreUnavailable("gone")

    shop.process.service = RetryService(clock=quick)
    shop.process.get().handling.begin = broken
    before = quick.monotonic()
    with pytest.raises(Reject) as caught:
        shop.deliver()
    assert caught.value.requeue
    assert quick.monotonic() - before > 10


def test_a_hook_that_fails_does_not_lose_the_request(shop, caplog):
    def hook(event):
        raise KeyError("no such course")

    shop.task.messages_for = hook
    shop.raising(ConnectionError("reset"))
    with pytest.raises(Retry):
        shop.deliver()
    assert [queue for queue, _, _ in shop.messages()] == ["orders"]
    assert "no such course" in caplog.text


def test_a_delivery_that_is_not_settled_goes_back_whatever_was_raised(shop, quick, monkeypatch):
    def interrupted(*_):
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(delivery, "examine", interrupted)
    shop.raising(ConnectionError("reset"))
    with pytest.raises(Reject) as caught:
        shop.deliver()
    assert caught.value.requeue
    assert quick.monotonic() > 0


@pytest.mark.parametrize("round_", ["first", -1, 2**31, [1]])
def test_a_round_that_cannot_be_one_is_a_dead_letter(shop, round_):
    with pytest.raises(Permanent, match="holdfast_round"):
        shop.deliver(round_=round_)
    ((queue, headers, _),) = shop.messages()
    assert (queue, headers["failureReason"]) == ("orders.dlq", "VALIDATION_ERROR")


def test_a_delay_past_the_longest_is_the_longest(shop):
    def body(task):
        task.retry(countdown=1e9)

    shop.body = body
    with pytest.raises(Retry):
        shop.deliver()
    ((queue, _, delay),) = shop.messages()
    assert (queue, delay) == ("orders", LONGEST_DELAY)


def test_a_message_of_the_hook_that_cannot_be_stored_is_left_out(shop, caplog):
    drafts = [MessageDraft("", "answers", {}), None, MessageDraft("a", "answers", {})]
    shop.task.messages_for = lambda event: drafts
    shop.raising(ConnectionError("reset"))
    with pytest.raises(Retry):
        shop.deliver()
    assert sorted(queue for queue, _, _ in shop.messages()) == ["answers", "orders"]
    assert "aggregate_id must be a text" in caplog.text


def test_a_task_id_that_cannot_be_stored_is_a_dead_letter_of_its_own(shop):
    shop.task.request_id_argument = None
    for task_id in ["x" * 201 + "1", "x" * 201 + "2"]:
        with pytest.raises(Permanent, match="task id"):
            shop.deliver(task_id=task_id)
    assert [(queue, headers["id"][-1]) for queue, headers, _ in shop.messages()] == [
        ("orders.dlq", "1"),
        ("orders.dlq", "2"),
    ]
    with pytest.raises(Permanent, match="task id"):  # a person has requeued it
        shop.deliver(task_id="x" * 201 + "1", round_=1)
    assert len(shop.messages()) == 3


def test_a_long_task_id_does_not_matter_where_an_argument_names_the_request(shop):
    assert shop.deliver(task_id="x" * 201) == "done"


def test_a_message_that_is_too_large_for_the_outbox_is_published_to_the_dead_letters(shop):
    shop.task.request_id_argument = None
    shop.raising(ConnectionError("reset"))
    with pytest.raises(ConnectionError):
        shop.deliver(LARGE)
    assert shop.messages() == []
    with shop.app.connection_for_read() as connection:
        letter = connection.SimpleQueue("orders.dlq").get(timeout=10)
        letter.ack()
    assert letter.payload[1] == {"order": LARGE}
    assert (letter.headers["lastError"], letter.headers["attemptsMade"]) == (
        "ConnectionError: reset",
        1,
    )
    with pytest.raises(Ignore, match="t1 is stale"):
        shop.deliver(LARGE)


def test_a_message_that_is_too_large_goes_back_where_the_broker_takes_no_letter(
    shop, quick, monkeypatch
):
    def away(*_):
        raise ConnectionError("the broker is away")

    monkeypatch.setattr(delivery, "publish_now", away)
    shop.task.request_id_argument = None
    shop.raising(ConnectionError("reset"))
    for _ in range(2):  # the second one finds the first one's claim
        with pytest.raises(Reject) as caught:
            shop.deliver(LARGE)
        assert caught.value.requeue
