"""Real Celery workers on a real RabbitMQ: what happens to a request, whatever its worker meets."""

import asyncio
import json
import signal

from tests.support.celery_worker import wait_for


def effects_of(fleet, *requests):
    """Wait until each request had an effect, and return how often each had one."""
    wait_for(lambda: set(requests) <= set(fleet.effects()))
    counted = fleet.effects()
    return [counted[request] for request in requests]


def letter_of(fleet, request):
    """Wait for the dead letter of a request, and return it: there is one."""
    (letter,) = wait_for(lambda: fleet.letters(request))
    return letter


def test_a_task_runs_once_and_its_effect_and_request_are_committed_together(fleet):
    fleet.send("work", "plain-1", ["ok"])
    assert effects_of(fleet, "plain-1") == [1]
    (call,) = fleet.calls("plain-1")
    assert call["key"] == "tests.support.celery_app.work:plain-1"


def test_a_hundred_duplicates_at_once_have_one_effect(fleet):
    for _ in range(100):
        fleet.send("work", "twin", ["sleep:0.3"])
    fleet.send("work", "after-twins", ["ok"])
    assert effects_of(fleet, "twin", "after-twins") == [1, 1]
    wait_for(lambda: fleet.ready() == 0)
    assert len(fleet.calls("twin")) == 1
    fleet.send("work", "twin", ["ok"])
    fleet.send("work", "later", ["ok"])
    assert effects_of(fleet, "later", "twin") == [1, 1]


def test_a_transient_error_is_tried_again_with_the_same_key(fleet):
    fleet.send("work", "flaky", ["status:503", "status:503", "ok"])
    assert effects_of(fleet, "flaky") == [1]
    calls = fleet.calls("flaky")
    assert (len(calls), len({call["key"] for call in calls})) == (3, 1)


def test_retry_after_is_respected_within_the_cap(fleet):
    fleet.send("work", "limited", ["status:429,1", "ok"])
    fleet.send("work", "far", ["status:429,3600", "ok"])
    assert effects_of(fleet, "limited", "far") == [1, 1]
    first, second = fleet.calls("limited")
    assert second["at"] - first["at"] >= 1.0
    first, second = fleet.calls("far")
    assert 1.5 <= second["at"] - first["at"] < 60


def test_a_permanent_error_goes_to_the_dead_letters_at_once_with_all_fields(fleet):
    fleet.send("work", "broken", ["permanent"], subject="essay-7", headers={"trace": "t1"})
    letter = letter_of(fleet, "broken")
    about = letter.headers
    assert (about["requestId"], about["submissionId"]) == ("broken", "essay-7")
    assert (about["failureReason"], about["attemptsMade"]) == ("AUDIO_UNREADABLE", 1)
    assert "does not decode" in about["lastError"]
    assert about["timestamp"].startswith("20")
    assert (letter.original_queue, about["trace"]) == (fleet.queue, "t1")
    args, kwargs, _ = json.loads(letter.body)
    assert (args, kwargs) == (["broken", ["permanent"]], {"subject": "essay-7"})
    assert len(fleet.calls("broken")) == 1


def test_a_task_that_fails_too_often_goes_to_the_dead_letters_and_can_be_requeued(fleet):
    fleet.send("work", "hopeless", ["status:500", "status:500", "status:500", "status:500", "ok"])
    letter = letter_of(fleet, "hopeless")
    assert (letter.headers["attemptsMade"], letter.headers["failureReason"]) == (3, "GW_5XX")
    # A copy that is delivered again changes nothing.
    fleet.send("work", "hopeless", ["ok"])
    asyncio.run(fleet.dead_letters().requeue(letter.message_id))
    assert effects_of(fleet, "hopeless") == [1]
    assert len(fleet.calls("hopeless")) == 5
    assert fleet.letters("hopeless") == []


def test_arguments_that_do_not_fit_go_to_the_dead_letters_at_once(fleet):
    result = fleet.send("work", "misfit", ["ok"], unknown=True)
    letter = letter_of(fleet, result.id)
    assert letter.headers["failureReason"] == "VALIDATION_ERROR"
    assert fleet.calls("misfit") == []


def test_a_message_that_is_too_large_for_the_outbox_goes_to_the_dead_letters(fleet):
    plan = ["permanent", "x" * 2_000_000]
    fleet.send("work", "large", plan)
    letter = letter_of(fleet, "large")
    assert (letter.headers["failureReason"], letter.headers["attemptsMade"]) == (
        "AUDIO_UNREADABLE",
        1,
    )
    assert json.loads(letter.body)[0] == ["large", plan]
    wait_for(lambda: "request large goes to" in fleet.log())  # the claim is released, too
    asyncio.run(fleet.dead_letters().discard(letter.message_id))


def test_a_message_that_kills_its_worker_goes_to_the_dead_letters_once(fleet):
    fleet.send("work", "poison", ["kill"])
    letter = letter_of(fleet, "poison")
    assert (letter.headers["failureReason"], letter.headers["attemptsMade"]) == ("WORKER_LOST", 3)
    assert len(fleet.calls("poison")) == 3
    fleet.send("work", "after-poison", ["ok"])
    assert effects_of(fleet, "after-poison") == [1]
    assert len(fleet.calls("poison")) == 3
    assert len(fleet.letters("poison")) == 1


def test_a_task_that_ends_its_process_is_tried_again(fleet):
    fleet.send("work", "leaver", ["exit", "ok"])
    assert effects_of(fleet, "leaver") == [1]
    assert len(fleet.calls("leaver")) == 2


def test_a_task_over_its_hard_time_limit_is_tried_again(fleet):
    request = fleet.send("plain", ["sleep:30", "ok"]).id
    wait_for(lambda: len(fleet.calls(request)) == 2)


def test_a_long_delay_waits_in_the_database_and_not_in_a_worker(fleet):
    fleet.send("work", "patient", ["later:2400"])
    delayed = "SELECT headers FROM holdfast{}outbox WHERE delayed AND payload LIKE '%patient%'"
    statement = delayed.format("_" if fleet.database.startswith("sqlite") else ".")
    (headers,) = wait_for(lambda: fleet.rows(statement))[0]
    assert json.loads(headers)["retries"] == 1
    wait_for(lambda: fleet.ready() == 0)
    worker = fleet.start_worker(1)
    fleet.kill(worker)
    assert len(fleet.calls("patient")) == 1


def test_a_worker_that_is_killed_leaves_its_task_to_another_one(fleet):
    for worker in list(fleet.running()):
        fleet.kill(worker)
    doomed = fleet.start_worker()
    fleet.send("work", "orphan", ["sleep:30", "ok"])
    wait_for(lambda: fleet.calls("orphan"))
    fleet.kill(doomed)
    fleet.start_worker()
    assert effects_of(fleet, "orphan") == [1]
    assert len({call["key"] for call in fleet.calls("orphan")}) == 1


def test_a_cold_shutdown_drops_no_running_task(fleet):
    """Billiard 4.3.0 with older releases of Celery acknowledged and dropped it: celery#10667."""
    (stopped,) = fleet.running()
    fleet.send("work", "cold", ["sleep:30", "ok"])
    wait_for(lambda: fleet.calls("cold"))
    stopped.send_signal(signal.SIGQUIT)
    stopped.wait(60)
    fleet.start_worker()
    assert effects_of(fleet, "cold") == [1]


def test_the_shared_breaker_opens_holds_the_tasks_and_closes_after_trials(fleet, tmp_path):
    plan = tmp_path / "plan"
    plan.write_text("status:503")
    for _ in range(12):
        fleet.send("guarded", str(plan))
    wait_for(lambda: (found := fleet.breaker()) and found.trips)
    assert len(fleet.calls("provider")) >= 20
    codes = wait_for(fleet.answers)
    assert {code["code"] for code in codes} == {"CIRCUIT_OPEN"}
    plan.write_text("ok")
    wait_for(lambda: fleet.breaker().closed_at)
    wait_for(lambda: fleet.handled("guarded") == 12)
