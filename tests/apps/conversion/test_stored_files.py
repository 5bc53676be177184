"""Storage of uploads: what is counted, and what is refused beyond an owner's limits."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.apps.conversion.service import pdf
from tests.http.live_server import Serving

from holdfast import OwnerLimits
from holdfast.files import Draft
from holdfast_conversion.app import Conversion
from holdfast_conversion.service_settings import ConversionSettings
from holdfast_conversion.upload_form import receive


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


def test_a_repeated_upload_at_a_limit_is_answered_with_the_job_that_is_there(serving):
    first = upload(serving, pdf("a"))
    owner = owner_of(serving, first)
    limits = OwnerLimits(storage_bytes=len(pdf("a")))
    serving.run(serving.engine.owners.set_limits(owner, limits))

    again = upload(serving, pdf("a"))
    assert (again.status_code, again.json()["deduplicated"]) == (200, True)
    assert again.json()["job"]["id"] == first.json()["job"]["id"]
    assert upload(serving, pdf("b")).status_code == 507

    serving.run(serving.engine.cancel(first.json()["job"]["id"]))
    assert upload(serving, pdf("a")).status_code == 507  # a cancelled twin is of no use
    assert len(list(serving.served.files.list("uploads"))) == 1
    assert len(serving.run(serving.engine.list()).jobs) == 1

    serving.run(serving.engine.owners.clear_limits(owner))
    assert upload(serving, pdf("b")).status_code == 201


def test_uploads_at_the_same_moment_do_not_exceed_the_limits_together(serving):
    owner = owner_of(serving, upload(serving, pdf("a")))
    size = len(pdf("1"))
    limits = OwnerLimits(storage_bytes=len(pdf("a")) + 3 * size)
    serving.run(serving.engine.owners.set_limits(owner, limits))
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: upload(serving, pdf(str(n))), range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [507] * 5
    assert len(list(serving.served.files.list("uploads"))) == 4


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


def test_a_limit_reached_while_an_upload_is_published_does_not_refuse_it(serving, monkeypatch):
    owner = owner_of(serving, upload(serving, pdf("a")))
    owners, publish = serving.engine.owners, Draft.publish

    def publish_and_limit(draft, name):
        serving.run(owners.set_limits(owner, OwnerLimits(waiting=1)))
        return publish(draft, name)

    monkeypatch.setattr(Draft, "publish", publish_and_limit)
    assert upload(serving, pdf("b")).status_code == 201
    assert len(list(serving.served.files.list("uploads"))) == 2


def test_a_limit_reached_during_an_upload_does_not_hide_why_it_was_refused(serving, monkeypatch):
    owner = owner_of(serving, upload(serving, pdf("a")))
    owners = serving.engine.owners
    serving.run(owners.set_limits(owner, OwnerLimits(waiting=100)))

    async def receive_and_limit(*args):
        await owners.set_limits(owner, OwnerLimits(waiting=1))
        await receive(*args)

    monkeypatch.setattr("holdfast_conversion.upload_service.receive", receive_and_limit)
    answer = upload(serving, b"no pdf")
    assert answer.status_code == 400
    assert answer.json()["job"]["error"] == answer.json()["error"]
