"""Queues, kinds, periodic jobs and workers on their pages."""

import pytest
from tests.support.waiting import until_sync


def test_queues_and_kinds_show_what_waits(shown):
    page = shown.look("/queues")
    assert page.texts("//*[@id='rows']//a") == ["default", "payments"]
    assert "Paused" in page.text("//tr[.//a='shop.wait']")
    assert "Open" in page.text("//tr[.//a='shop.charge']")


def test_a_queue_and_a_kind_are_paused_and_resumed(dashboard):
    assert dashboard.post("/queues/pause", name="payments") == "/queues?note=paused"
    assert "Paused" in dashboard.look("/queues").text("//tr[.//a='payments']")
    assert dashboard.post("/queues/resume", name="payments") == "/queues?note=resumed"
    assert "Open" in dashboard.look("/queues").text("//tr[.//a='payments']")
    dashboard.post("/kinds/resume", name="shop.wait")
    dashboard.post("/kinds/pause", name="shop.mail")
    kinds = {kind.name: kind.paused for kind in dashboard.run(dashboard.engine.kinds.list())}
    assert (kinds["shop.wait"], kinds["shop.mail"]) == (False, True)
    assert dashboard.client.post("/ops/queues/pause", data={"name": "x"}).status_code == 404


def test_a_periodic_job_is_paused_resumed_and_run(dashboard):
    assert "missed runs are skipped" in dashboard.look("/periodic").text("//tbody")
    assert dashboard.post("/periodic/pause", name="shop.tidy") == "/periodic?note=paused"
    assert "Paused" in dashboard.look("/periodic").text("//tbody")
    assert dashboard.post("/periodic/resume", name="shop.tidy") == "/periodic?note=resumed"
    assert "Paused" not in dashboard.look("/periodic").text("//tbody")
    assert dashboard.post("/periodic/run", name="shop.tidy") == "/periodic?note=run"
    assert len(dashboard.look("/jobs?kind=shop.tidy").all("//*[@id='rows']/li")) == 1
    assert dashboard.client.post("/ops/periodic/run", data={"name": "x"}).status_code == 404


def test_a_worker_is_listed_and_asked_to_finish(dashboard):
    assert dashboard.look("/workers").text("//*[@class='empty-title']") == "No worker is alive."
    working = dashboard.serving.begin(dashboard.engine.work())
    (worker,) = until_sync(lambda: dashboard.run(dashboard.engine.workers.list()))
    assert dashboard.look("/workers").texts("//tbody//th") == [worker.id]

    assert "finish" in dashboard.ask("/workers/finish", name=worker.id).text("//h1")
    assert dashboard.post("/workers/finish", name=worker.id, confirmed="1") == (
        "/workers?note=finishing"
    )
    working.result(60)
    assert (
        dashboard.client.post(
            "/ops/workers/finish", data={"name": "x", "confirmed": "1"}
        ).status_code
        == 404
    )


@pytest.mark.parametrize(
    "path", ["/queues/pause", "/kinds/resume", "/periodic/run", "/workers/finish"]
)
def test_a_name_that_no_store_holds_is_refused(shown, path):
    answer = shown.client.post(f"/ops{path}", data={"name": "a\0b", "confirmed": "1"})
    assert answer.status_code == 422
