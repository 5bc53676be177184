"""Operators erase everything of an owner."""

import asyncio

import pytest

from holdfast import App, Engine, JobContext
from holdfast.jobs.client import erasure


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_an_operator_erases_an_owner_and_is_told_what_was_deleted(serving):
    serving.enqueue()
    owner = serving.owner()
    stranger = serving.browser()
    serving.enqueue(client=stranger)

    answer = serving.admin().delete(f"/api/ops/owners/{owner}")

    assert answer.json() == {
        "erased": {"owner": owner, "jobs": 1, "webhooks": 0, "data": {}},
    }
    (entry,) = serving.admin().get("/api/audit").json()["entries"]
    assert entry["detail"] == {"jobs": 1, "webhooks": 0, "data": {}}
    assert serving.client.get("/api/jobs").json()["jobs"] == []
    assert len(stranger.get("/api/jobs").json()["jobs"]) == 1
    assert serving.admin().delete(f"/api/ops/owners/{owner}").json()["erased"]["jobs"] == 0


def test_an_owner_with_slashes_and_colons_is_understood(serving):
    answer = serving.admin().delete("/api/ops/owners/key:4:acme:office/ann")

    assert answer.json()["erased"]["owner"] == "key:4:acme:office/ann"


@pytest.mark.parametrize("owner", ["x" * 1001, "a%00b"])
def test_what_no_owner_is_called_is_refused(serving, owner):
    answer = serving.admin().delete(f"/api/ops/owners/{owner}")

    assert code_of(answer) == (422, "VALIDATION_ERROR")


def test_jobs_that_do_not_stop_are_counted_in_a_line(serving, monkeypatch):
    async def still(*_args):
        raise erasure.JobsStillRun(("j1", "j2"))

    monkeypatch.setattr(erasure, "erase", still)

    answer = serving.admin().delete("/api/ops/owners/ann")

    assert code_of(answer) == (409, "INVALID_STATE")
    assert answer.json()["error"]["message"].startswith("2 jobs were asked to stop")
    assert answer.headers["retry-after"] == "10"
    (entry,) = serving.admin().get("/api/audit").json()["entries"]
    assert (entry["action"], entry["target"]) == ("owners.delete", "ann")
    assert entry["detail"] == {"running": 2, "outcome": "incomplete"}


def test_kinds_that_no_app_declares_are_named_and_nothing_is_deleted(serve, tmp_path):
    other = App("other")

    @other.job()
    async def forgotten(_ctx: JobContext) -> None: ...

    async def enqueue():
        async with Engine(f"sqlite:///{tmp_path / 'work.db'}", apps=[other]) as engine:
            await engine.enqueue(forgotten, owner="ann")
            await engine.webhooks.add("https://example.org/hook", owner="ann")

    asyncio.run(enqueue())
    serving = serve()

    answer = serving.admin().delete("/api/ops/owners/ann")

    assert code_of(answer) == (409, "INVALID_STATE")
    assert "other.forgotten" in answer.json()["error"]["message"]
    assert len(serving.admin().get("/api/ops/jobs").json()["jobs"]) == 1
    assert len(serving.admin().get("/api/webhooks").json()["webhooks"]) == 1
    assert serving.admin().get("/api/audit").json()["entries"] == []


def test_a_caller_who_is_not_an_operator_is_refused(serving):
    assert code_of(serving.client.delete("/api/ops/owners/ann")) == (403, "FORBIDDEN")
