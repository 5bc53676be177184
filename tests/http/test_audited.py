"""Operators' routes: who may call them, and what the audit log says of it."""

import logging
import re

import pytest
from tests.http.live_server import READER, Order

from holdfast.http.audited import described
from holdfast.jobs.store_port import StoreUnavailable

CHANGES = ("post", "put", "patch", "delete")


@pytest.fixture
def serving(serve):
    return serve(reader_token=READER)


def ops_routes(serving):
    """Return method and path of every ops route of the OpenAPI document, names filled in."""
    paths = serving.client.get("/api/openapi.json").json()["paths"]
    found = [
        (method, re.sub(r"{move}", "reset", path).replace("{", "").replace("}", ""))
        for path, methods in paths.items()
        for method, route in methods.items()
        if "ops" in route.get("tags", ())
    ]
    assert len(found) > 25
    return found


def other_changes(serving):
    paths = serving.client.get("/api/openapi.json").json()["paths"]
    return [
        (method, re.sub(r"[{}]", "", path))
        for path, methods in paths.items()
        for method, route in methods.items()
        if method in CHANGES and "ops" not in route.get("tags", ())
    ]


def test_no_ops_route_answers_without_a_login(serving):
    for method, path in ops_routes(serving):
        status = serving.client.request(method, path).status_code
        if (method, path) == ("get", "/api/downstreams"):
            assert status == 200  # names and states are for every session
        else:
            assert status == 403, (method, path)


def test_a_reader_can_look_at_everything_and_change_nothing(serving):
    reader = serving.reader()
    before = serving.run(serving.engine.stats())
    for method, path in ops_routes(serving):
        answer = reader.request(method, path)
        if method in CHANGES:
            assert answer.status_code == 403, (method, path)
            assert "not to change" in answer.json()["error"]["message"]
        elif answer.status_code == 403:
            # That there is no such job looks the same to every operator.
            assert serving.admin().get(path).json() == answer.json(), path
    assert serving.run(serving.engine.stats()) == before
    assert serving.run(serving.engine.audit.list()).entries == ()


def test_a_readers_token_opens_no_session_of_an_owner(serving):
    job = serving.enqueue()
    for method, path in other_changes(serving):
        assert serving.reader().request(method, path.replace("job_id", job)).status_code >= 400
    assert serving.run(serving.engine.get(job)).status == "queued"


def test_every_change_is_in_the_audit_log(serving):
    admin = serving.admin()
    job = serving.enqueue(Order(fails="NO_GRAIN"))
    serving.work()
    for method, path in (
        ("post", "/api/downstreams/mill/hold"),
        ("post", "/api/downstreams/mill/release"),
        ("post", "/api/queues/default/pause"),
        ("post", "/api/kinds/demo.grind/pause"),
        ("post", f"/api/ops/jobs/{job}/retry"),
        ("post", f"/api/ops/jobs/{job}/cancel"),
        ("delete", f"/api/ops/jobs/{job}"),
    ):
        assert admin.request(method, path).status_code == 200, path

    entries = serving.reader().get("/api/audit").json()["entries"]

    assert [(entry["action"], entry["target"]) for entry in reversed(entries)] == [
        ("downstreams.hold", "mill"),
        ("downstreams.release", "mill"),
        ("queues.pause", "default"),
        ("kinds.pause", "demo.grind"),
        ("jobs.retry", job),
        ("jobs.cancel", job),
        ("jobs.delete", job),
    ]
    assert {(entry["who"], entry["role"]) for entry in entries} == {("admin", "full")}


def test_what_was_refused_is_not_in_the_audit_log(serving):
    admin = serving.admin()
    assert admin.post("/api/downstreams/nobody/reset").status_code >= 400
    assert admin.post("/api/queues/nothing/pause").status_code >= 400
    assert admin.get("/api/audit").json()["entries"] == []


def test_a_change_that_fails_half_way_is_recorded_as_incomplete(serving, monkeypatch):
    async def half(run, seconds):
        raise StoreUnavailable("gone")

    monkeypatch.setattr(serving.state.runs, "wait", half)
    admin = serving.admin()
    order = {"filter": {"errorCode": "NO_GRAIN"}}
    assert admin.post("/api/dead-letters/retry", json=order).status_code == 503

    (entry,) = admin.get("/api/audit").json()["entries"]
    assert (entry["action"], entry["who"]) == ("dead-letters.retry", "admin")
    assert entry["detail"].pop("run")
    assert entry["detail"] == {
        "filter": {"error_code": "NO_GRAIN"}, "total": 0, "rate": None, "outcome": "incomplete",
    }  # fmt: skip


def test_the_answer_to_a_change_that_failed_stays_where_the_audit_log_fails_too(
    serving, monkeypatch, caplog
):
    async def gone(*_args, **_options):
        raise StoreUnavailable("gone")

    monkeypatch.setattr(serving.engine, "erase", gone)
    monkeypatch.setattr(serving.engine.store, "add_audit", broken)
    with caplog.at_level(logging.ERROR, "holdfast.audit"):
        assert serving.admin().delete("/api/ops/owners/ann").status_code == 503
    assert "not in the audit log: admin owners.delete ann" in caplog.text


async def broken(*_args, **_options):
    raise RuntimeError("the audit log is broken")


def test_the_audit_log_goes_on_by_cursor(serving):
    admin = serving.admin()
    for move in ("pause", "resume", "pause"):
        admin.post(f"/api/queues/default/{move}")
    first = admin.get("/api/audit?limit=2").json()
    rest = admin.get("/api/audit", params={"cursor": first["nextCursor"]}).json()
    moves = [entry["action"] for entry in first["entries"] + rest["entries"]]
    assert moves == ["queues.pause", "queues.resume", "queues.pause"]
    assert rest["nextCursor"] is None
    assert admin.get("/api/audit?cursor=nonsense").status_code == 422


@pytest.mark.parametrize(
    ("method", "template", "values", "expected"),
    [
        (
            "POST",
            "/api/downstreams/{name}/{move}",
            {"name": "a", "move": "hold"},
            "downstreams.hold a",
        ),
        ("POST", "/api/periodic/{name}/run", {"name": "a.b"}, "periodic.run a.b"),
        ("DELETE", "/api/outbox/{message_id}", {"message_id": "m"}, "outbox.delete m"),
        ("POST", "/api/dead-letters/retry", {}, "dead-letters.retry "),
        ("POST", "/ops/jobs/{job_id}/cancel", {"job_id": "j"}, "jobs.cancel j"),
    ],
)
def test_the_path_says_what_was_done(method, template, values, expected):
    assert " ".join(described(method, template, values)) == expected
