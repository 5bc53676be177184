"""Many of the owner's jobs at once, over HTTP."""

import asyncio
import io
import time
import zipfile

import pytest
from tests.http.live_server import Order
from tests.http.pages.sample_app import SampleApp

from holdfast import App
from holdfast.http import bulk
from holdfast.jobs.store_port import ClaimRequest


@pytest.fixture
def press(serve, tmp_path):
    return serve(served=SampleApp(tmp_path / "press"))


def names_in(answer):
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="results.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        return archive.namelist()


def listed(serving, client=None):
    jobs = (client or serving.client).get("/api/jobs").json()["jobs"]
    return {job["id"]: job["status"] for job in jobs}


def finish(serving, count, fails="", **meta):
    ids = [serving.enqueue(Order(fails=fails), meta={"filename": f"{n}.pdf", **meta})
           for n in range(count)]  # fmt: skip
    serving.work()
    return ids


# -- download --------------------------------------------------------------------------------------


def test_all_complete_results_are_one_download_with_names_of_their_own(press):
    finish(press, 3)
    finish(press, 1, fails="GW_4XX")
    finish(press, 1, gone=True)
    other = press.browser()
    press.enqueue(client=other)
    press.enqueue()

    answer = press.client.get("/api/bulk/download")

    assert names_in(answer) == ["a.xml", "a (2).xml", "a (3).xml", "a (4).xml"]


def test_only_the_named_jobs_are_downloaded_and_never_anothers(press):
    ids = finish(press, 3)
    other = press.browser()

    answer = press.client.get("/api/bulk/download", params={"id": [ids[0], ids[0], "nothing"]})
    assert names_in(answer) == ["a.xml"]
    answer = press.client.get("/api/bulk/download", params={"name": "2.PDF"})
    assert names_in(answer) == ["a.xml"]
    refused = other.get("/api/bulk/download", params={"id": ids})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NOT_READY")


def test_where_nothing_is_complete_there_is_nothing_to_download(serving):
    serving.enqueue()

    answer = serving.client.get("/api/bulk/download")

    assert answer.status_code == 409
    assert "nothing to download" in answer.json()["error"]["message"]


# -- retry -----------------------------------------------------------------------------------------


def test_all_failed_jobs_are_retried_and_no_others(press):
    failed = finish(press, 3, fails="GW_4XX")
    (done,) = finish(press, 1)
    foreign = press.enqueue(Order(fails="GW_4XX"), client=press.browser())
    press.work()

    answer = press.client.post("/api/bulk/retry", json={})

    assert answer.json() == {"done": failed[::-1], "refused": []}
    assert listed(press) == {**dict.fromkeys(failed, "queued"), done: "complete"}
    assert press.run(press.engine.get(foreign)).status == "failed"


def test_a_job_that_cannot_be_retried_does_not_keep_the_others(press):
    first = press.enqueue(Order(fails="GW_4XX"), dedup_key="k")
    second = press.enqueue(Order(fails="GW_4XX"))
    press.work()
    press.enqueue(Order(), dedup_key="k")

    answer = press.client.post("/api/bulk/retry", json={"ids": [first, second]}).json()

    assert answer["done"] == [second]
    (refused,) = answer["refused"]
    assert refused["id"] == first
    assert refused["error"]["code"] == "INVALID_STATE"
    assert "taken its place" in refused["error"]["message"]


# -- remove ----------------------------------------------------------------------------------------


def test_jobs_are_removed_at_once_and_waiting_ones_cancelled_first(press):
    done, failed = finish(press, 1) + finish(press, 1, fails="GW_4XX")
    waiting, kept = press.enqueue(), press.enqueue()
    foreign = press.enqueue(client=press.browser())

    ids = [done, failed, waiting, foreign, "nothing"]
    answer = press.client.post("/api/bulk/remove", json={"ids": ids})

    assert answer.json() == {"done": [done, failed, waiting], "refused": []}
    assert listed(press) == {kept: "queued"}
    assert press.run(press.engine.get(foreign)) is not None


@pytest.mark.parametrize("body", [{}, {"ids": []}, {"ids": ["x"] * 1001}, {"ids": "x"}])
def test_a_removal_names_its_jobs(serving, body):
    job = serving.enqueue()

    assert serving.client.post("/api/bulk/remove", json=body).status_code == 422
    assert listed(serving) == {job: "queued"}


def test_one_job_is_removed_by_its_address(press):
    (job,) = finish(press, 1)
    other = press.browser()

    assert other.delete(f"/api/jobs/{job}").status_code == 403
    answer = press.client.delete(f"/api/jobs/{job}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert listed(press) == {}
    assert press.client.delete(f"/api/jobs/{job}").status_code == 403


def stuck(serving):
    """Return a job that a worker has and does not report."""
    job = serving.enqueue()
    request = ClaimRequest(1, ("default",), {"demo.grind": None})
    (claim,) = serving.run(serving.engine.store.tick("stuck", claim=request)).claims
    assert claim.job_id == job
    return job


def test_a_running_job_is_stopped_and_then_removed(serve):
    app = App("demo")

    @app.job()
    async def grind(ctx, args: Order) -> None:
        await asyncio.sleep(60)

    serving = serve(served=app)
    job = serving.enqueue()
    working = serving.begin(serving.engine.work())
    while listed(serving)[job] != "processing":
        time.sleep(0.02)

    assert serving.client.delete(f"/api/jobs/{job}").status_code == 204

    assert listed(serving) == {}
    working.cancel()


def test_removals_of_one_job_at_the_same_time_all_succeed(press):
    (job,) = finish(press, 1)
    found = press.run(press.engine.get(job))
    removals = [press.begin(bulk.remove_all(press.state, [found])) for _ in range(4)]

    assert [one.result(30).done for one in removals] == [[job]] * 4
    assert listed(press) == {}


def test_a_running_job_that_does_not_stop_stays_and_is_refused(press, monkeypatch):
    monkeypatch.setattr(bulk, "_STOP_SECONDS", 0.05)
    job, (done,) = stuck(press), finish(press, 1)

    answer = press.client.post("/api/bulk/remove", json={"ids": [job, done]}).json()

    assert answer["done"] == [done]
    assert [each["id"] for each in answer["refused"]] == [job]
    assert "still being stopped" in answer["refused"][0]["error"]["message"]
    assert listed(press) == {job: "processing"}
    assert press.client.delete(f"/api/jobs/{job}").status_code == 409
