"""The service under one command: stopped, killed at any moment, and restarted.

Ctrl-C and starting again; `kill -9` during 100 uploads and conversions; no second XML and correct
leases when a worker dies; downloads after retention.
"""

import signal
import threading

import pytest
from campaigns import conversion
from campaigns.plan import STORES, Plan
from tests.acceptance.deployment import GOOD, XML
from tests.apps.conversion.service import Service, pdf
from tests.support.cookies import session_cookie
from tests.support.log_records import unexpected_tracebacks
from tests.support.processes import children_of, is_alive

from holdfast.testing.downstream import ScriptedDownstream, hang, status


@pytest.fixture
def whole(new_database, tmp_path):
    """A function that returns the service, not yet started."""

    def build(**settings):
        return Service(tmp_path, **new_database(), **settings)

    return build


def jobs_of(client):
    return {job["id"]: job for job in client.get("/api/jobs").json()["jobs"]}


def session_of(service):
    service.client.get("/api/jobs")
    return "=".join(session_cookie(service.client))


# -- stopped ---------------------------------------------------------------------------------------


def test_ctrl_c_ends_everything_and_the_next_start_finds_all_jobs_as_they_were(whole):
    with (
        ScriptedDownstream() as gateway,
        whole(GATEWAY_URL=gateway.url, WORKER_CONCURRENCY="1") as service,
    ):
        cookie = session_of(service)
        gateway.script(GOOD, status(400), hang(GOOD), path="/convert")
        ids = [service.upload(pdf(f"job {n}")).json()["job"]["id"] for n in range(5)]
        service.upload(b"no pdf at all")
        service.client.post(f"/api/jobs/{ids[4]}/cancel")
        gateway.wait_for_requests(3, 20)
        before = jobs_of(service.client)
        assert sorted(job["status"] for job in before.values()) == [
            "cancelled", "complete", "failed", "failed", "processing", "queued",
        ]  # fmt: skip
        running = ids[2]
        pid = service.process.pid
        children = children_of(pid)
        threading.Timer(0.5, gateway.release).start()

        assert service.stop(signal.SIGINT) == 0

        assert not any(map(is_alive, [pid, *children]))
        assert unexpected_tracebacks(service.output) == []
        gateway.script(hang(GOOD), path="/convert")
        service.start()
        client = service.browser(cookie=cookie)
        after = jobs_of(client)
        # The running job was finished within the shutdown time.
        assert after.pop(running)["status"] == "complete"
        del before[running]
        # The waiting job may be running by now.
        waiting = ids[3]
        assert after.pop(waiting)["status"] in {"queued", "processing"}
        del before[waiting]
        assert after == before
        assert client.get(f"/api/jobs/{ids[0]}/download").content == XML
        gateway.wait_for_requests(4, 20)
        gateway.release()
        assert service.wait(waiting, client=client)["status"] == "complete"


# -- killed ----------------------------------------------------------------------------------------


class FewKills(Plan):
    """A plan with two kills: one fewer than the default attempts of a job."""

    __slots__ = ()

    def pick(self, full, short):
        return 2


@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", STORES)
def test_every_upload_that_was_answered_ends_complete_with_exactly_one_xml(
    store, tmp_path, request
):
    if store == "postgres":
        request.getfixturevalue("postgres_server")  # skips without a server, or fails in CI

    outcome = conversion.run(FewKills("conversion", store, 4, False, tmp_path))

    assert outcome.findings == []
    assert outcome.figures["answered"] >= 100
    assert outcome.figures["kills"] == 2


# -- retention -------------------------------------------------------------------------------------


def test_after_retention_results_are_expired_and_sources_deleted(whole):
    with (
        ScriptedDownstream() as gateway,
        whole(GATEWAY_URL=gateway.url, ARTIFACT_TTL_MS="1500") as service,
    ):
        gateway.script(GOOD, status(400), path="/convert")
        done = service.upload(pdf("short-lived")).json()["job"]["id"]
        assert service.wait(done)["status"] == "complete"
        lost = service.upload(pdf("refused")).json()["job"]["id"]
        assert service.wait(lost)["status"] == "failed"
        service.until(lambda: service.files("results") + service.files("uploads") == [])

        gone = service.client.get(f"/api/jobs/{done}/download")
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "EXPIRED")
        assert service.job(done)["canDownload"] is False
        refused = service.client.post(f"/api/jobs/{lost}/retry")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "FILE_NOT_FOUND")
