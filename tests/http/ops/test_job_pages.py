"""Jobs of all owners, and one of them."""

import pytest

from holdfast.jobs.query_port import SEARCH_WINDOW
from holdfast.jobs.views import JobSearch


def listed(page):
    return page.texts("//*[@id='rows']//a[@class='row-name']")


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("status=failed", ["shop.charge"] * 3),
        ("kind=shop.mail", ["shop.mail"] * 2),
        ("error=took+too+long&status=failed", []),
        ("error=declined&code=CARD_DECLINED&since=1h", ["shop.charge"] * 3),
        ("queue=payments", ["shop.charge"] * 3),
        ("downstream=smtp", ["shop.mail"] * 2),
        ("owner=nobody", []),
        ("retried=1", []),
        ("status=nonsense&since=ever&kind=%00shop.wait", ["shop.wait"]),
    ],
)
def test_filters_stand_in_the_address(shown, query, kinds):
    page = shown.look(f"/jobs?{query}")
    assert listed(page) == kinds
    assert query.split("=")[0] in page.one("//*[@id='board']").get("hx-get")


def test_a_list_goes_on_by_cursor(dashboard):
    async def enqueue():
        for _ in range(45):
            await dashboard.engine.enqueue("shop.report", {"number": 1})

    assert not dashboard.look("/jobs").all("//nav[@class='paging']")
    dashboard.run(enqueue())
    first = dashboard.look("/jobs")
    assert len(listed(first)) == 50
    older = first.one("//nav[@class='paging']/a").get("href").removeprefix("/ops")
    last = dashboard.look(older)
    assert len(listed(last)) == 5
    assert last.one("//nav[@class='paging']/a").get("href") == "/ops/jobs"
    assert dashboard.client.get("/ops/jobs?cursor=odd").status_code == 422


def test_a_search_that_stopped_says_how_many_jobs_it_looked_at(dashboard, monkeypatch):
    async def stopped(*_, **__):
        return JobSearch((), "older", False, 1_700_000_000.0)

    monkeypatch.setattr(dashboard.engine, "search", stopped)
    text = dashboard.look("/jobs?error=declined").text("//*[@class='scope']")
    assert f"the newest {SEARCH_WINDOW:,} jobs" in text


def test_a_job_page_has_attempts_tracebacks_and_no_secrets(shown):
    page = shown.look(f"/jobs/{shown.ids['sync_stock']}")
    assert page.text("//h1") == "shop.sync_stock"
    assert page.texts("//*[@class='step']//strong") == ["Attempt 1"]
    assert "TimeoutError" in page.text("//details/pre")
    arguments = page.text("//pre[@aria-labelledby='arguments-title']")
    assert '"number": 1' in arguments
    assert "hunter2" not in page.answer.text
    assert page.texts("//*[@class='row-do']//button") == ["Retry now", "Cancel the job"]
    assert "shop.report" in shown.look(f"/jobs/{shown.ids['report']}").answer.text


def test_a_failed_job_is_retried_and_says_where_it_stands(dashboard):
    path = f"/jobs/{dashboard.ids['charge']}"
    assert dashboard.post(f"{path}/retry") == f"{path}?note=retried"
    assert dashboard.post(f"{path}/retry") == f"{path}?note=INVALID_STATE"
    assert "Retried by hand" in dashboard.look(path).text("//*[@class='steps']")


def test_a_waiting_job_is_expedited(dashboard):
    path = f"/jobs/{dashboard.ids['sync_stock']}"
    assert dashboard.post(f"{path}/retry-now") == f"{path}?note=expedited"


def test_a_job_is_cancelled_after_a_question(dashboard):
    path = f"/jobs/{dashboard.ids['later']}"
    assert dashboard.ask(f"{path}/cancel").text("//h1") == "Cancel this job?"
    assert dashboard.run(dashboard.engine.get(dashboard.ids["later"])).status == "queued"
    assert dashboard.post(f"{path}/cancel", confirmed="1") == f"{path}?note=cancelled"
    assert dashboard.run(dashboard.engine.get(dashboard.ids["later"])).status == "cancelled"
    assert dashboard.client.post("/ops/jobs/unknown/retry").status_code == 403
