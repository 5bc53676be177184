"""Storage of uploads: what is counted, and what is refused beyond an owner's limits."""

import pytest
from tests.apps.conversion.service import pdf
from tests.http.live_server import Serving

from holdfast import OwnerLimits
from holdfast_conversion.app import Conversion
from holdfast_conversion.service_settings import ConversionSettings


@pytest.fixture
def serving(tmp_path):
    settings = ConversionSettings(files=tmp_path / "files", gateway_url="http://127.0.0.1:9")
    with Serving(tmp_path, served=Conversion(settings)) as serving:
        yield serving


def upload(serving, content):
    return serving.client.post("/api/upload", files={"file": ("a.pdf", content)})


def owner_of(serving, answer):
    return serving.run(serving.engine.get(answer.json()["job"]["id"])).owner


def test_uploads_beyond_the_storage_of_an_owner_are_refused_and_leave_no_file(serving):
    first = pdf("a")
    owner = owner_of(serving, upload(serving, first))
    owners = serving.engine.owners
    assert serving.run(owners.use(owner)).stored == {"conversion": len(first)}

    serving.run(owners.set_limits(owner, OwnerLimits(storage_bytes=len(first) + 10)))
    answer = upload(serving, pdf("another"))
    assert answer.status_code == 507
    assert answer.json()["error"]["code"] == "STORAGE_EXCEEDED"
    assert "job" not in answer.json()
    assert len(list(serving.served.files.list("uploads"))) == 1

    serving.run(owners.set_limits(owner, OwnerLimits(storage_bytes=len(first))))
    assert upload(serving, pdf("a third")).status_code == 507


def test_storage_is_counted_once_per_upload(serving, monkeypatch):
    owner = owner_of(serving, upload(serving, pdf("a")))
    serving.run(serving.engine.owners.set_limits(owner, OwnerLimits(storage_bytes=10**6)))
    counts = []

    async def counted(*args):
        counts.append(args)
        yield 0

    monkeypatch.setattr("holdfast_conversion.app.stored_bytes", counted)
    assert upload(serving, pdf("b")).status_code == 201
    assert len(counts) == 1


def test_uploads_beyond_the_unfinished_jobs_of_an_owner_are_refused(serving):
    owner = owner_of(serving, upload(serving, pdf("a")))
    serving.run(serving.engine.owners.set_limits(owner, OwnerLimits(waiting=1)))
    answer = upload(serving, pdf("b"))
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "TOO_MANY_JOBS"
    assert len(list(serving.served.files.list("uploads"))) == 1
