"""Periodic jobs over HTTP: listed, paused, resumed and run by operators only."""

import pytest

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.maintenance.periodic import PeriodicJobs


@pytest.fixture
def periodic(serve):
    app = App("demo")

    @app.periodic(every=3600)
    async def tidy(ctx: JobContext) -> None: ...

    return serve(served=app)


def seen_by_a_worker(serving):
    engine = serving.engine
    leader = PeriodicJobs(engine.store, engine.kinds.values(), clock=engine.clock)
    serving.run(leader.round())


def test_operators_list_schedules(periodic):
    seen_by_a_worker(periodic)
    (listed,) = periodic.admin().get("/api/periodic").json()["periodic"]

    assert (listed["name"], listed["schedule"]) == ("demo.tidy", "every 3600 s")
    assert (listed["missed"], listed["overlap"], listed["hasWorker"]) == ("skip", True, True)
    assert (listed["paused"], listed["lastSlot"], listed["lastJob"]) == (False, None, None)
    assert listed["nextSlot"].endswith(":00:00Z")


def test_a_schedule_is_paused_and_resumed(periodic):
    seen_by_a_worker(periodic)
    admin = periodic.admin()

    paused = admin.post("/api/periodic/demo.tidy/pause").json()["periodic"]
    assert (paused["paused"], paused["nextSlot"]) == (True, None)
    assert paused["pausedAt"] is not None
    resumed = admin.post("/api/periodic/demo.tidy/resume").json()["periodic"]
    assert (resumed["paused"], resumed["pausedAt"]) == (False, None)
    assert resumed["nextSlot"] is not None


def test_a_job_is_run_now(periodic):
    answer = periodic.admin().post("/api/periodic/demo.tidy/run")

    assert answer.status_code == 200
    job = periodic.run(periodic.engine.get(answer.json()["jobId"]))
    assert (job.kind, job.status) == ("demo.tidy", "queued")


@pytest.mark.parametrize("action", ["pause", "resume", "run"])
def test_an_unknown_name_is_not_found(periodic, action):
    for name in ("demo.nothing", "%00", "demo"):
        answer = periodic.admin().post(f"/api/periodic/{name}/{action}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/api/periodic"),
        ("POST", "/api/periodic/demo.tidy/pause"),
        ("POST", "/api/periodic/demo.tidy/resume"),
        ("POST", "/api/periodic/demo.tidy/run"),
    ],
)
def test_a_caller_who_is_not_an_operator_is_refused(periodic, method, path):
    answer = periodic.client.request(method, path)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    (listed,) = periodic.admin().get("/api/periodic").json()["periodic"]
    assert listed["paused"] is False


def test_the_routes_are_in_the_schema(periodic):
    paths = periodic.client.get("/api/openapi.json").json()["paths"]

    assert {path for path in paths if path.startswith("/api/periodic")} == {
        "/api/periodic",
        "/api/periodic/{name}/pause",
        "/api/periodic/{name}/resume",
        "/api/periodic/{name}/run",
    }
