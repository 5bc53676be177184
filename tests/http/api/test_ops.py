"""Requests that only operators may make."""

import pytest
from tests.http.live_server import Order


def test_everyone_sees_the_state_and_only_operators_see_more(serving):
    (brief,) = serving.client.get("/api/downstreams").json()["downstreams"]
    (whole,) = serving.admin().get("/api/downstreams").json()["downstreams"]

    assert {name for name, value in brief.items() if value is not None} == {"name", "state", "held"}
    assert (brief["name"], brief["state"]) == ("mill", "CLOSED")
    assert (whole["mode"], whole["trips"], whole["heldByHand"]) == ("hold", 0, False)


@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/api/downstreams/mill/reset"),
        ("GET", "/api/dead-letters"),
        ("POST", "/api/dead-letters/retry"),
        ("GET", "/api/dead-letters/retry"),
        ("DELETE", "/api/dead-letters/retry"),
        ("DELETE", "/api/dead-letters/x"),
        ("GET", "/api/stats"),
        ("GET", "/api/ops/jobs/x"),
    ],
)
def test_a_caller_who_is_not_an_operator_is_refused(serving, method, path):
    strangers = (
        serving.client,
        serving.browser(authorization="Basic x"),
        serving.browser(cookie=f"{serving.state.admin.name.plain}=admin.1.x"),
    )
    for client in strangers:
        json = {} if path.endswith("retry") and method == "POST" else None
        answer = client.request(method, path, json=json)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    wrong = serving.browser(authorization="Bearer wrong").request(method, path)
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "UNAUTHENTICATED")


def test_a_downstream_is_held_released_and_reset_by_hand(serving):
    admin = serving.admin()

    held = admin.post("/api/downstreams/mill/hold").json()["downstream"]
    assert (held["state"], held["held"], held["heldByHand"]) == ("OPEN", True, True)
    job_id = serving.enqueue()
    assert serving.client.get(f"/api/jobs/{job_id}").json()["job"]["held"] is True
    assert admin.post("/api/downstreams/mill/release").json()["downstream"]["held"] is False
    assert admin.post("/api/downstreams/mill/reset").json()["downstream"]["state"] == "CLOSED"


def test_an_unknown_downstream_is_not_found(serving):
    answer = serving.admin().post("/api/downstreams/moon/reset")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "VALIDATION_ERROR")
    assert serving.admin().post("/api/downstreams/mill/explode").status_code == 422
    assert serving.admin().post("/api/downstreams/%00/reset").status_code == 404


def failed_jobs(serving, count):
    ids = [serving.enqueue(Order(number, fails="GW_4XX")) for number in range(count)]
    serving.work()
    return ids


def test_dead_letters_are_listed_grouped_and_requeued(serving):
    ids = failed_jobs(serving, 3)
    admin = serving.admin()

    found = admin.get("/api/dead-letters", params={"limit": 2}).json()
    assert len(found["deadLetters"]) == 2
    assert found["deadLetters"][0]["lastError"]["code"] == "GW_4XX"
    assert found["nextCursor"]
    assert [(group["code"], group["count"]) for group in found["groups"]] == [("GW_4XX", 3)]

    order = {"filter": {"errorCode": "GW_4XX"}, "dryRun": True}
    dry = admin.post("/api/dead-letters/retry", json=order).json()
    assert (dry["matched"], dry["requeued"], dry["dryRun"], dry["done"]) == (3, 3, True, True)
    one = admin.post("/api/dead-letters/retry", json={"filter": {"id": ids[0]}}).json()
    assert (one["requeued"], one["dryRun"]) == (1, False)
    assert serving.client.get(f"/api/jobs/{ids[0]}").json()["job"]["status"] == "queued"
    assert admin.delete(f"/api/dead-letters/{ids[1]}").json() == {"discarded": 1}
    assert admin.delete(f"/api/dead-letters/{ids[1]}").status_code == 403
    left = admin.get("/api/dead-letters").json()["deadLetters"]
    assert [letter["id"] for letter in left] == [ids[2]]


def test_a_paced_run_goes_on_in_the_background_and_can_be_stopped(serving):
    failed_jobs(serving, 4)
    admin = serving.admin()

    begun = admin.post("/api/dead-letters/retry", json={"ratePerSecond": 0.5})
    assert begun.status_code == 202
    again = admin.post("/api/dead-letters/retry", json={"ratePerSecond": 1})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "INVALID_STATE")
    while admin.get("/api/dead-letters/retry").json()["requeued"] < 1:
        pass
    admin.delete("/api/dead-letters/retry")
    while not (stopped := admin.get("/api/dead-letters/retry").json())["done"]:
        pass
    assert 1 <= stopped["requeued"] < 4


@pytest.mark.parametrize(
    "order",
    [
        {"ratePerSecond": 0},
        {"ratePerSecond": -1},
        {"ratePerSecond": "1"},
        {"dryRun": 0},
        {"dryRun": "no"},
        {"filter": {"errorCode": "no code"}},
        {"filter": {"errorText": "a\0b"}},
        [],
        "x",
    ],
)
def test_an_order_that_makes_no_sense_is_refused(serving, order):
    answer = serving.admin().post("/api/dead-letters/retry", json=order)

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    "order, unknown",
    [
        ({"filter": {"kindd": "demo.grind"}}, "kindd"),
        ({"dryrun": True}, "dryrun"),
        ({"ratepersecond": 1}, "ratepersecond"),
    ],
)
def test_a_slip_in_an_order_puts_nothing_back(serving, order, unknown):
    (job_id,) = failed_jobs(serving, 1)

    answer = serving.admin().post("/api/dead-letters/retry", json=order)

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    line = f"The request cannot be understood: there is no field {unknown}."
    assert answer.json()["error"]["message"] == line
    assert serving.client.get(f"/api/jobs/{job_id}").json()["job"]["status"] == "failed"


def test_a_slip_in_a_question_for_dead_letters_does_not_answer_with_all(serving):
    failed_jobs(serving, 1)
    ask = serving.admin().get

    answer = ask("/api/dead-letters", params={"errorcode": "GW_4XX"})

    assert answer.status_code == 422
    assert "there is no field errorcode" in answer.json()["error"]["message"]
    assert len(ask("/api/dead-letters", params={"kind": "x"}).json()["deadLetters"]) == 0
    found = ask("/api/dead-letters", params={"kind": "demo.grind", "limit": 1}).json()
    assert len(found["deadLetters"]) == 1


def test_half_a_character_is_refused(serving):
    answer = serving.admin().post(
        "/api/dead-letters/retry",
        content='{"filter": {"kind": "\\ud800"}}',
        headers={"content-type": "application/json"},
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


def test_an_invalid_cursor_is_refused(serving):
    assert serving.admin().get("/api/dead-letters", params={"cursor": "x"}).status_code == 422


def test_the_counters_are_shown(serving):
    failed_jobs(serving, 2)

    stats = serving.admin().get("/api/stats").json()

    assert [(lane["kind"], lane["failed"]) for lane in stats["lanes"]] == [("demo.grind", 2)]
    assert stats["deadLetters"] == 2
    assert stats["outcomes"][0]["count"] == 2


def test_operators_see_a_job_of_any_owner_with_its_tracebacks(serving):
    job_id = serving.enqueue(Order(fails="GW_4XX"))
    serving.work()

    found = serving.admin().get(f"/api/ops/jobs/{job_id}").json()
    assert (found["job"]["id"], found["job"]["owner"]) == (job_id, serving.owner())
    assert (found["job"]["queue"], found["job"]["downstream"]) == ("default", "mill")
    assert [event["name"] for event in found["events"]] == ["queued", "processing", "failed"]
    (attempt,) = found["attempts"]
    assert attempt["traceback"].startswith("Traceback (most recent call last):")
    assert attempt["traceback"].endswith("holdfast.errors.Permanent: ground to a halt")
    assert "in grind" in attempt["traceback"]
    assert attempt["workerId"]
    answer = serving.admin().get("/api/ops/jobs/none")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")


def test_an_ordinary_session_never_sees_a_traceback(serving):
    job_id = serving.enqueue(Order(fails="GW_4XX"))
    serving.work()

    for client in (serving.client, serving.admin()):
        for path in ("", "/events"):
            assert "raceback" not in client.get(f"/api/jobs/{job_id}{path}").text
