"""Uploads during failures of the disk, the database or a duplicate; test_api.py tests the rest."""

import errno
import socket

import pytest
from tests.apps.conversion.service import pdf
from tests.http.live_server import Serving

from holdfast import SystemClock
from holdfast.bootstrap import open_store
from holdfast.jobs.store_port import ClaimRequest, StoreBusy
from holdfast.testing.downstream import ScriptedDownstream, ok, status
from holdfast_conversion.app import Conversion
from holdfast_conversion.file_cleanup import sweep
from holdfast_conversion.service_settings import ConversionSettings


@pytest.fixture
def serving(tmp_path):
    settings = ConversionSettings(files=tmp_path / "files", gateway_url="http://127.0.0.1:9")
    with Serving(tmp_path, served=Conversion(settings)) as serving:
        yield serving


def upload(serving, content):
    return serving.client.post("/api/upload", files={"file": ("a.pdf", content)})


def names(serving, folder="uploads"):
    return [each.name for each in serving.served.files.list(folder)]


def breaking(monkeypatch, method, number=errno.EIO):
    def broken(*_):
        raise OSError(number, "broken", "/a/secret/path")

    monkeypatch.setattr(f"holdfast.files.artifacts.{method}", broken)


def test_an_upload_is_taken_in_and_found_again(serving):
    first, again = upload(serving, pdf("a")), upload(serving, pdf("a"))

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["job"]["id"] == again.json()["job"]["id"]
    assert names(serving) == [f"uploads/{first.json()['job']['id']}.pdf"]


@pytest.mark.parametrize("method", ["ArtifactStore.draft", "Draft.write", "Draft.publish"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EACCES])
def test_a_disk_that_fails_is_an_io_error_and_recorded(serving, monkeypatch, method, number):
    breaking(monkeypatch, method, number)

    answer = upload(serving, pdf("a"))

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "IO_ERROR"
    assert "path" not in answer.text
    job = answer.json()["job"]
    assert (job["status"], job["error"]["code"], job["canRetry"]) == ("failed", "IO_ERROR", False)
    assert names(serving) == []


def test_after_an_outage_of_the_database_the_file_stays_until_it_is_known_to_be_unused(serving):
    real = serving.engine.enqueue

    async def away(*_, **__):
        raise StoreBusy("away")

    serving.engine.enqueue = away
    answer = upload(serving, pdf("a"))

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "IO_ERROR")
    assert len(names(serving)) == 1
    serving.engine.enqueue = real
    assert serving.run(sweep(serving.served.files, serving.state, 3600)) == 1
    assert names(serving) == []


@pytest.mark.parametrize("sent", [b"", b"--b\r\n", b"%PDF-1.4 and then nothing more"])
def test_a_stalled_upload_gets_an_answer_and_leaves_no_file(tmp_path, sent):
    settings = ConversionSettings(
        files=tmp_path / "files", gateway_url="http://127.0.0.1:9", stall_seconds=0.3
    )
    with Serving(tmp_path, served=Conversion(settings)) as serving:
        host, _, port = serving.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(
                b"POST /api/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n"
                b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
                b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
                + sent
            )
            answer = b""
            while piece := connection.recv(65536):
                answer += piece

        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"The upload took too long." in answer
        assert names(serving) == []
        assert list((tmp_path / "files" / ".drafts").iterdir()) == []
        assert serving.client.get("/api/jobs").json()["jobs"] == []


def test_a_refused_upload_is_recorded(serving):
    answer = upload(serving, b"no pdf")

    assert answer.status_code == 400
    assert answer.json()["job"]["error"] == answer.json()["error"]


# -- twins -----------------------------------------------------------------------------------------

TTL = 3600.0
XML = ok(b"<a/>", headers={"Content-Type": "application/xml"})


class LaterClock(SystemClock):
    """A clock to which a test can add seconds."""

    added = 0.0

    def wall(self):
        return super().wall() + self.added


@pytest.fixture
def gateway():
    with ScriptedDownstream() as server:
        yield server


@pytest.fixture
def kept(tmp_path, gateway):
    """A service that keeps files for an hour and cleans up once a minute."""
    settings = ConversionSettings(
        files=tmp_path / "files", gateway_url=gateway.url, artifact_ttl=TTL
    )
    with Serving(tmp_path, served=Conversion(settings), clock=LaterClock()) as serving:
        yield serving


def job_of(serving, job_id):
    return serving.client.get(f"/api/jobs/{job_id}").json()["job"]


def error_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_an_upload_whose_duplicate_is_stopping_is_a_new_job(kept, tmp_path):
    """It is stopping as long as the worker that has it says nothing, which here is for good."""
    first = upload(kept, pdf("a")).json()["job"]["id"]

    async def claim():
        async with open_store(f"sqlite:///{tmp_path / 'work.db'}") as store:
            request = ClaimRequest(1, ("default",), {"conversion.convert": None})
            (claimed,) = (await store.tick("elsewhere", claim=request)).claims
            assert claimed.lease.job_id == first

    kept.run(claim())
    asked = kept.client.post(f"/api/jobs/{first}/cancel").json()["job"]
    assert (asked["status"], asked["cancelRequested"]) == ("processing", True)
    again, twin = upload(kept, pdf("a")), upload(kept, pdf("a"))

    assert again.status_code == 201
    second = again.json()["job"]["id"]
    assert second != first
    assert (twin.status_code, twin.json()["job"]["id"]) == (200, second)
    assert f"uploads/{second}.pdf" in names(kept)


def test_an_upload_whose_duplicate_ends_meanwhile_is_a_new_job(kept, monkeypatch):
    first = upload(kept, pdf("a")).json()["job"]["id"]
    real = kept.engine.get

    async def cancelled_just_now(job_id):
        if job_id == first:
            await kept.engine.store.cancel(first)
        return await real(job_id)

    monkeypatch.setattr(kept.engine, "get", cancelled_just_now)
    again = upload(kept, pdf("a"))

    assert again.status_code == 201
    assert job_of(kept, again.json()["job"]["id"])["status"] == "queued"


def test_a_result_has_expired_when_its_time_is_over_and_not_when_it_is_cleared_up(kept, gateway):
    gateway.script(XML)
    first = upload(kept, pdf("a")).json()["job"]["id"]
    kept.work()
    assert kept.client.get(f"/api/jobs/{first}/download").content == b"<a/>"
    assert upload(kept, pdf("a")).status_code == 200

    kept.engine.clock.added = TTL + 1

    assert names(kept, "results") == [f"results/{first}.1.xml"]
    assert job_of(kept, first)["canDownload"] is False
    assert error_of(kept.client.get(f"/api/jobs/{first}/download")) == (404, "EXPIRED")
    again = upload(kept, pdf("a"))
    assert again.status_code == 201
    assert again.json()["job"]["id"] != first


def test_a_failed_job_whose_time_is_over_is_not_tried_again(kept, gateway):
    gateway.script(status(400))
    job_id = upload(kept, pdf("a")).json()["job"]["id"]
    kept.work()
    assert job_of(kept, job_id)["canRetry"] is True

    kept.engine.clock.added = TTL + 1

    assert names(kept) == [f"uploads/{job_id}.pdf"]
    assert job_of(kept, job_id)["canRetry"] is False
    answer = kept.client.post(f"/api/jobs/{job_id}/retry")
    assert error_of(answer) == (404, "FILE_NOT_FOUND")


def test_while_the_intake_is_paused_nothing_is_stored_by_script_form_or_sample(serving):
    serving.run(serving.engine.intake.pause("the disk is replaced"))

    answer = upload(serving, pdf("a"))
    by_form = serving.client.post("/upload", files={"file": ("a.pdf", pdf("a"))})
    sample = serving.client.post("/sample", headers={"accept": "application/json"})

    assert error_of(answer) == error_of(sample) == (503, "INTAKE_PAUSED")
    assert answer.headers["retry-after"] == "30"
    assert by_form.headers["location"] == "/?note=INTAKE_PAUSED"
    shown = serving.client.get(by_form.headers["location"]).text
    assert "No new work is taken in just now; please come back later." in shown
    assert names(serving) == []
    assert serving.client.get("/api/jobs").json()["jobs"] == []
