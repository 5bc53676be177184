"""Operators pause queues and kinds, and ask workers to finish."""

import asyncio

import pytest
from tests.support.waiting import SOON, until

ROUTES = [
    ("GET", "/api/queues"),
    ("POST", "/api/queues/default/pause"),
    ("POST", "/api/queues/default/resume"),
    ("GET", "/api/kinds"),
    ("POST", "/api/kinds/demo.grind/pause"),
    ("POST", "/api/kinds/demo.grind/resume"),
    ("GET", "/api/workers"),
    ("POST", "/api/workers/w/finish"),
]


@pytest.mark.parametrize("method, path", ROUTES)
def test_a_caller_who_is_not_an_operator_is_refused(serving, method, path):
    answer = serving.client.request(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    wrong = serving.browser(authorization="Bearer wrong").request(method, path)
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("what, name", [("queue", "default"), ("kind", "demo.grind")])
def test_jobs_are_held_while_their_queue_or_kind_is_paused(serving, what, name):
    admin = serving.admin()
    paused = admin.post(f"/api/{what}s/{name}/pause").json()[what]
    assert (paused["name"], paused["paused"], paused["ready"]) == (name, True, 0)
    assert paused["pausedAt"].endswith("Z")

    job_id = serving.enqueue()
    serving.work()
    shown = serving.client.get(f"/api/jobs/{job_id}").json()["job"]
    assert (shown["status"], shown["held"], shown["heldBy"]) == ("queued", True, what)
    (listed,) = admin.get(f"/api/{what}s").json()[f"{what}s"]
    assert (listed["paused"], listed["ready"]) == (True, 1)
    assert "Paused by an operator." in serving.client.get("/").text
    answer = serving.client.post(f"/api/jobs/{job_id}/retry-now").json()
    assert answer["message"] == "Its next attempt begins when the pause ends."

    resumed = admin.post(f"/api/{what}s/{name}/resume").json()[what]
    assert (resumed["paused"], resumed["pausedAt"]) == (False, None)
    serving.work()
    shown = serving.client.get(f"/api/jobs/{job_id}").json()["job"]
    assert (shown["status"], shown["held"], shown["heldBy"]) == ("complete", False, None)


def test_a_pause_is_sent_to_streams_without_its_name(serving):
    with serving.stream() as (_, following):
        following()
        serving.admin().post("/api/queues/default/pause")
        event, _, data = following()
        assert (event, set(data)) == ("downstreams", {"downstreams", "now"})


@pytest.mark.parametrize(
    "path, line",
    [
        ("/api/queues/moon/pause", "There is no such queue."),
        ("/api/queues/%00/pause", "There is no such queue."),
        ("/api/kinds/moon/resume", "There is no such kind."),
        ("/api/workers/moon/finish", "There is no such worker."),
        ("/api/workers/%00/finish", "There is no such worker."),
    ],
)
def test_an_unknown_name_is_not_found(serving, path, line):
    answer = serving.admin().post(path)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (404, "VALIDATION_ERROR")
    assert error["message"] == line


def test_a_move_that_does_not_exist_is_refused(serving):
    assert serving.admin().post("/api/queues/default/explode").status_code == 422


def test_workers_are_listed_and_asked_to_finish(serving):
    admin = serving.admin()
    assert admin.get("/api/workers").json() == {"workers": []}

    async def start():
        return asyncio.create_task(serving.engine.work())

    working = serving.run(start())

    serving.run(until(serving.engine.workers.list))
    (worker,) = admin.get("/api/workers").json()["workers"]
    assert (worker["running"], worker["finishRequestedAt"]) == (0, None)
    asked = admin.post(f"/api/workers/{worker['id']}/finish").json()["worker"]
    assert asked["id"] == worker["id"]
    serving.run(asyncio.wait_for(working, SOON))
    assert admin.get("/api/workers").json() == {"workers": []}
