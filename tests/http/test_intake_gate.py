"""The intake: paused by operators for all servers, or by a disk that is almost full."""

import asyncio
import shutil
from collections import namedtuple
from types import SimpleNamespace

import pytest
from fastapi import APIRouter
from tests.http.live_server import Order, demo_app

from holdfast.clock import SYSTEM_CLOCK
from holdfast.http import DiskRoom, ServedApp
from holdfast.http.api_errors import ApiError
from holdfast.http.intake_gate import IntakeGate
from holdfast.jobs.intake_port import IntakePause

Usage = namedtuple("Usage", "total used free")


class Mill(ServedApp):
    """An app that takes in grain: by word, or in sacks, which are files."""

    def __init__(self):
        super().__init__(demo_app())

    def routes(self, state):
        router = APIRouter()

        @router.post("/api/grain")
        async def grain(sacks: bool = False) -> dict[str, str]:
            await state.intake.check(writes_files=sacks)
            return {"job": (await state.engine.enqueue("demo.grind", Order())).id}

        return router


def code_of(answer):
    return answer.status_code, answer.json().get("error", {}).get("code")


def test_a_pause_refuses_new_work_with_a_line_until_it_is_resumed(serve):
    serving = serve(served=Mill())
    admin = serving.admin()
    assert serving.client.post("/api/grain").status_code == 200

    paused = admin.post("/api/intake/pause", json={"reason": "the disk is replaced"})

    assert paused.json()["intake"]["paused"] is True
    assert paused.json()["intake"]["reason"] == "the disk is replaced"
    assert paused.json()["intake"]["pausedAt"].endswith("Z")
    refused = serving.client.post("/api/grain")
    assert code_of(refused) == (503, "INTAKE_PAUSED")
    assert refused.headers["retry-after"] == "30"
    assert refused.json()["error"]["message"].endswith("please come back later.")
    assert "replaced" not in refused.text
    assert admin.get("/api/intake").json() == paused.json()

    (entry,) = admin.get("/api/audit").json()["entries"]
    assert entry["detail"] == {"reason": "the disk is replaced"}
    resumed = admin.post("/api/intake/resume").json()["intake"]
    assert (resumed["paused"], resumed["reason"], resumed["pausedAt"]) == (False, None, None)
    assert serving.client.post("/api/grain").status_code == 200


def test_a_pause_of_another_process_is_obeyed_within_a_second(serve):
    serving = serve(served=Mill())
    serving.client.post("/api/grain")
    serving.run(serving.engine.intake.pause("elsewhere"))
    serving.state.intake._read_at -= 1.0  # a second passes

    assert code_of(serving.client.post("/api/grain")) == (503, "INTAKE_PAUSED")


class SlowIntake:
    """An intake whose state arrives when the test says so."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.may_answer = asyncio.Event()
        self.reads = 0

    async def state(self):
        self.reads += 1
        answer = self._answers.pop(0)
        await self.may_answer.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer


def gate_on(intake):
    return IntakeGate(SimpleNamespace(clock=SYSTEM_CLOCK, intake=intake))


PAUSE = IntakePause("x", 0.0)


def test_requests_that_arrive_during_the_first_read_wait_for_it():
    async def main():
        intake = SlowIntake(PAUSE)
        gate = gate_on(intake)
        asked = [asyncio.create_task(gate.check()) for _ in range(3)]
        await asyncio.sleep(0)
        asked[0].cancel()  # a client that goes away ends no read that others wait for
        await asyncio.sleep(0)
        intake.may_answer.set()
        return intake.reads, await asyncio.gather(*asked, return_exceptions=True)

    reads, (gone, *refused) = asyncio.run(main())
    assert reads == 1
    assert isinstance(gone, asyncio.CancelledError)
    assert [type(each) for each in refused] == [ApiError, ApiError]


def test_a_read_that_began_before_a_pause_does_not_hide_it():
    async def main():
        intake = SlowIntake(None, PAUSE)
        gate = gate_on(intake)
        before = asyncio.create_task(gate.check())
        await asyncio.sleep(0)
        gate.read_again()
        after = asyncio.create_task(gate.check())
        await asyncio.sleep(0)
        intake.may_answer.set()
        await before
        for refused in (after, gate.check()):
            with pytest.raises(ApiError):
                await refused
        return intake.reads

    assert asyncio.run(main()) == 2


def test_a_first_read_that_fails_is_repeated_by_the_next_request():
    async def main():
        intake = SlowIntake(ConnectionError(), PAUSE)
        intake.may_answer.set()
        gate = gate_on(intake)
        with pytest.raises(ConnectionError):
            await gate.check()
        with pytest.raises(ApiError):
            await gate.check()

    asyncio.run(main())


def test_jobs_run_the_server_is_ready_and_programs_enqueue_while_it_is_paused(serve):
    serving = serve(served=Mill())
    job_id = serving.enqueue()
    serving.admin().post("/api/intake/pause", json={"reason": "x"})

    more = serving.enqueue()
    serving.work()

    for each in (job_id, more):
        assert serving.client.get(f"/api/jobs/{each}").json()["job"]["status"] == "complete"
    assert serving.client.get("/readyz").status_code == 200


def test_below_the_mark_only_files_are_refused_and_room_lets_them_in_again(
    serve, tmp_path, monkeypatch
):
    free = 99
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1000, 1000 - free, free))
    serving = serve(served=Mill(), disk_room=DiskRoom(tmp_path / "not" / "there", 100))

    refused = serving.client.post("/api/grain?sacks=true")

    assert code_of(refused) == (503, "INTAKE_PAUSED")
    assert "no room" in refused.json()["error"]["message"]
    assert serving.client.post("/api/grain").status_code == 200
    shown = serving.admin().get("/api/intake").json()["intake"]
    assert (shown["diskFull"], shown["freeBytes"], shown["leastBytes"]) == (True, 99, 100)
    assert shown["paused"] is False
    free = 100
    serving.state.intake.read_again()
    assert serving.client.post("/api/grain?sacks=true").status_code == 200


def test_a_mark_of_0_asks_for_no_room(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, 0))
    serving = serve(served=Mill(), disk_room=DiskRoom(tmp_path, 0))

    assert serving.client.post("/api/grain?sacks=true").status_code == 200


def test_the_room_is_that_of_a_real_disk(tmp_path):
    free = DiskRoom(tmp_path / "not" / "there", 1).free_bytes()

    assert abs(free - shutil.disk_usage(tmp_path).free) < 2**30


@pytest.mark.parametrize("reason", ["", "two\nlines", "x" * 501])
def test_a_reason_that_is_not_one_line_is_refused(serving, reason):
    answer = serving.admin().post("/api/intake/pause", json={"reason": reason})

    assert code_of(answer) == (422, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    "method, path",
    [("GET", "/api/intake"), ("POST", "/api/intake/pause"), ("POST", "/api/intake/resume")],
)
def test_a_caller_who_is_not_an_operator_is_refused(serving, method, path):
    answer = serving.client.request(method, path, json={"reason": "x"})

    assert code_of(answer) == (403, "FORBIDDEN")
