"""The upload where the disk or the database fails; the rest is met in test_api.py."""

import errno
import socket

import pytest
from tests.apps.conversion.service import pdf
from tests.http.serving import Serving

from holdfast.jobs.ports import StoreBusy
from holdfast_conversion.app import Conversion
from holdfast_conversion.keeping import sweep
from holdfast_conversion.settings import ConversionSettings


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


def test_where_the_database_goes_away_the_file_stays_until_it_is_known_to_be_of_no_use(serving):
    real = serving.engine.enqueue

    async def away(*_, **__):
        raise StoreBusy("away")

    serving.engine.enqueue = away
    answer = upload(serving, pdf("a"))

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "IO_ERROR")
    assert len(names(serving)) == 1
    serving.engine.enqueue = real
    assert serving.run(sweep(serving.served.files, serving.site, 3600)) == 1
    assert names(serving) == []


@pytest.mark.parametrize("sent", [b"", b"--b\r\n", b"%PDF-1.4 and then nothing more"])
def test_an_upload_that_stands_still_is_told_so_and_leaves_nothing_behind(tmp_path, sent):
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
