"""Jobs of all owners, for operators."""

import time

import pytest
from tests.http.live_server import READER, Order

from holdfast.http.api.ops_jobs import OpsJobQuery


@pytest.fixture
def serving(serve):
    return serve(reader_token=READER)


def ids(answer):
    return [job["id"] for job in answer.json()["jobs"]]


def test_jobs_of_all_owners_are_listed_newest_first_by_cursor(serving):
    made = [serving.enqueue(client=serving.browser()) for _ in range(3)]
    reader = serving.reader()

    first = reader.get("/api/ops/jobs?limit=2")
    rest = reader.get("/api/ops/jobs", params={"cursor": first.json()["nextCursor"]})

    assert ids(first) + ids(rest) == made[::-1]
    assert rest.json()["nextCursor"] is None
    assert len({job["owner"] for job in first.json()["jobs"]}) == 2
    assert (first.json()["complete"], first.json()["searchedFrom"]) == (True, None)


def test_filters_narrow_the_list(serving):
    failed = serving.enqueue(Order(fails="NO_GRAIN"))
    serving.work()
    waiting = serving.enqueue(owner="someone else")
    reader = serving.reader()

    def listed(**filters):
        return ids(reader.get("/api/ops/jobs", params=filters))

    assert listed(status="failed") == listed(error="NO_GRAIN") == listed(error="halt") == [failed]
    assert listed(owner="someone else") == listed(q=waiting[4:]) == [waiting]
    assert listed(q="to a halt") == [failed]
    assert listed(kind="demo.grind", queue="default") == [waiting, failed]
    assert listed(attempts=1) == [failed]
    assert listed(kind="other") == listed(attempts=2) == listed(error="NO_HALT") == []
    assert listed(since="2020-01-01T00:00:00Z") == [waiting, failed]
    assert listed(until="2020-01-01T00:00:00Z") == []


@pytest.fixture
def elsewhere(monkeypatch):
    """Let the server's local time be five hours behind UTC."""
    monkeypatch.setenv("TZ", "XXX+5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "written",
    ["1970-01-02T00:00:00", "1970-01-02", "1970-01-02T00:00:00Z", "1970-01-02T02:00:00+02:00"],
)
def test_a_time_without_an_offset_is_utc(written):
    chosen = OpsJobQuery.model_validate({"since": written, "until": written}).as_filter()
    assert (chosen.created_from, chosen.created_to) == (86_400, 86_400)


def test_a_filter_without_an_index_says_how_far_it_looked(serving, monkeypatch):
    made = [serving.enqueue() for _ in range(5)]
    search = serving.engine.store.search_jobs

    async def short(where, **options):
        return await search(where, window=2, **options)

    monkeypatch.setattr(serving.engine.store, "search_jobs", short)
    answer = serving.reader().get("/api/ops/jobs", params={"q": made[0]}).json()

    assert (answer["jobs"], answer["complete"]) == ([], False)
    assert answer["searchedFrom"] is not None
    assert answer["nextCursor"] is not None


def test_any_job_can_be_retried_expedited_cancelled_and_deleted(serving):
    admin = serving.admin()
    job = serving.enqueue(Order(fails="NO_GRAIN"))
    serving.work()

    retried = admin.post(f"/api/ops/jobs/{job}/retry").json()["job"]
    now = admin.post(f"/api/ops/jobs/{job}/retry-now").json()["job"]
    early = admin.delete(f"/api/ops/jobs/{job}")
    cancelled = admin.post(f"/api/ops/jobs/{job}/cancel").json()["job"]
    late = admin.post(f"/api/ops/jobs/{job}/retry")

    assert (retried["status"], retried["manualRetryCount"]) == ("queued", 1)
    assert (now["status"], cancelled["status"]) == ("queued", "cancelled")
    assert (early.status_code, late.status_code) == (409, 409)
    assert admin.delete(f"/api/ops/jobs/{job}").json() == {"deleted": [job]}
    assert admin.get(f"/api/ops/jobs/{job}").status_code == 403


def test_bad_filters_are_refused(serving):
    for asked in ("status=lost", "cursor=x", "limit=0", "attempts=-1", "q=%00", "since=yesterday"):
        assert serving.reader().get(f"/api/ops/jobs?{asked}").status_code == 422, asked


@pytest.mark.parametrize(
    "time, status", [("2026-11-18", 200), ("2026-11-18T07:30:00Z", 200), ("0.5", 422), ("1e9", 422)]
)
def test_times_are_dates_and_not_numbers(serving, time, status):
    assert serving.admin().get("/api/ops/jobs", params={"since": time}).status_code == status
