"""The pages' routes, as a browser without scripts uses them, and as htmx does."""

import json
import re
from contextlib import contextmanager

import pytest
from tests.http.live_server import Order
from tests.http.pages.page_reader import Looked
from tests.support import browser

from holdfast import App, Exponential, Permanent, RetryLater, RetryPolicy
from holdfast.jobs.model import JobStatus
from holdfast.jobs.store_port import StoreBusy

HTMX = {"hx-request": "true", "hx-request-type": "partial"}


def flaky_app():
    """Return an app whose job raises RetryLater for an hour."""
    app = App("demo")
    policy = RetryPolicy(max_attempts=3, backoff=Exponential(base=3600, cap=7200, jitter=0))

    @app.job(retry=policy)
    async def grind(ctx, args: Order) -> int:
        if args.fails:
            raise Permanent("GW_4XX", args.fails)
        raise RetryLater(3600, "The mill is being oiled.")

    return app


@contextmanager
def broken(serving, method):
    real = getattr(serving.engine.store, method)

    async def away(*_, **__):
        raise StoreBusy("away")

    setattr(serving.engine.store, method, away)
    yield
    setattr(serving.engine.store, method, real)


def without_time(text):
    moments = r'data-now="[^"]*"|name="until" value="[^"]*"'
    return re.sub(moments, "", text.strip())


def status_of(serving, job_id):
    return serving.run(serving.engine.get(job_id)).status


def submit(serving, page, action, client=None):
    """Send the form that posts to `action`, as a browser without scripts does."""
    form = page.one(f"//form[@action='{action}']")
    fields = {each.get("name"): each.get("value") or "" for each in form.xpath(".//input")}
    return (client or serving.client).post(action, data=fields, follow_redirects=False)


# -- forms -----------------------------------------------------------------------------------------


def test_a_failed_job_is_retried_by_its_form_and_the_page_is_shown_again(serving):
    job_id = serving.enqueue(Order(fails="GW_4XX"))
    serving.work()
    page = Looked(serving.client.get("/?status=failed"))

    answer = submit(serving, page, f"/jobs/{job_id}/retry")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/?status=failed&note=retried"
    assert status_of(serving, job_id) is JobStatus.QUEUED
    back = Looked(serving.client.get(answer.headers["location"]))
    assert "attempts are counted from one" in back.text("//*[@id='toast']")


def test_a_waiting_job_is_cancelled_by_its_form(serving):
    job_id = serving.enqueue()

    answer = submit(serving, Looked(serving.client.get("/")), f"/jobs/{job_id}/cancel")

    assert answer.headers["location"] == "/?note=cancelled"
    assert status_of(serving, job_id) is JobStatus.CANCELLED


def test_a_job_that_waits_for_its_retry_shows_it_and_can_be_retried_now(serve):
    serving = serve(served=flaky_app())
    job_id = serving.enqueue()
    serving.work()

    page = Looked(serving.client.get("/"))

    row = page.row(job_id)
    assert "Waiting to retry Attempt 1 of 3 · next retry in" in row
    assert "The mill is being oiled." in row
    until = page.one("//time[@data-until]")
    now = float(page.one("//*[@id='board']").get("data-now"))
    assert float(until.get("data-until")) - now > 3500
    answer = submit(serving, page, f"/jobs/{job_id}/retry-now")
    assert answer.headers["location"] == "/?note=expedited"
    job = serving.run(serving.engine.get(job_id))
    assert (job.status, job.attempt_count) == (JobStatus.QUEUED, 1)
    assert Looked(serving.client.get("/")).all("//time[@data-until]") == []
    serving.work()
    assert serving.run(serving.engine.get(job_id)).attempt_count == 2


def test_retry_now_is_there_for_programs_too(serve):
    serving = serve(served=flaky_app())
    job_id = serving.enqueue()
    serving.work()

    answer = serving.client.post(f"/api/jobs/{job_id}/retry-now")

    assert answer.status_code == 200
    assert answer.json()["message"] == "Its next attempt begins now."
    assert serving.browser().post(f"/api/jobs/{job_id}/retry-now").status_code == 403
    failed = serving.enqueue(Order(fails="No."))
    serving.work()
    assert serving.client.post(f"/api/jobs/{failed}/retry-now").status_code == 409


def test_a_form_that_arrives_too_late_shows_the_reason_on_its_page(serving):
    job_id = serving.enqueue()
    page = Looked(serving.client.get(f"/jobs/{job_id}"))
    serving.work()

    answer = submit(serving, page, f"/jobs/{job_id}/cancel")

    assert answer.headers["location"] == f"/jobs/{job_id}?note=INVALID_STATE"
    back = Looked(serving.client.get(answer.headers["location"]))
    assert back.text("//*[@id='toast']") == "This cannot be done in the present state."
    assert status_of(serving, job_id) is JobStatus.COMPLETE


def test_retry_now_promises_nothing_while_the_downstream_is_held(serving):
    job_id = serving.enqueue(run_at=serving.engine.clock.wall() + 3600)
    serving.run(serving.engine.downstreams.hold("mill"))

    answer = serving.client.post(f"/jobs/{job_id}/retry-now", follow_redirects=False)

    assert answer.headers["location"] == "/?note=paused"
    page = Looked(serving.client.get("/?note=paused"))
    line = "It waits until what it needs is back; then it begins by itself."
    assert page.text("//*[@id='toast']") == line
    other = serving.enqueue(run_at=serving.engine.clock.wall() + 3600)
    answer = serving.client.post(f"/api/jobs/{other}/retry-now").json()
    assert answer["message"] == "Its next attempt begins when the mill is back."
    assert answer["job"]["held"] is True


def test_retrying_a_job_with_a_newer_duplicate_shows_the_reason(serving):
    first = serving.enqueue(Order(fails="GW_4XX"), dedup_key="same")
    serving.work()
    page = Looked(serving.client.get("/"))
    serving.enqueue(dedup_key="same")

    answer = submit(serving, page, f"/jobs/{first}/retry")

    assert f"/jobs/{first}/retry" not in serving.client.get("/").text
    back = Looked(serving.client.get(answer.headers["location"]))
    assert back.text("//*[@id='toast']") == "A later job of the same content has taken its place."
    refused = serving.client.post(f"/api/jobs/{first}/retry")
    assert refused.status_code == 409
    assert refused.json()["error"] == {
        "code": "INVALID_STATE",
        "message": "A later job of the same content has taken its place.",
    }


@pytest.mark.parametrize("move", ["retry", "retry-now", "cancel"])
def test_a_job_of_another_owner_and_an_unknown_job_are_refused_alike(serving, move):
    job_id = serving.enqueue()
    stranger = serving.browser()

    pages = [
        Looked(stranger.post(f"/jobs/{each}/{move}"), 403)
        for each in (job_id, "nothing", "a" * 300)
    ]

    assert {page.text("//main//section") for page in pages} == {
        "That is not possible. This is not yours to see or change. To the front page"
    }
    assert status_of(serving, job_id) is JobStatus.QUEUED


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
@pytest.mark.parametrize("path", ["/jobs/{}/cancel", "/jobs/{}/retry", "/theme"])
def test_a_form_of_another_site_does_nothing(serving, path, headers):
    job_id = serving.enqueue()

    answer = serving.client.post(path.format(job_id), headers=headers)

    assert answer.status_code == 403
    assert status_of(serving, job_id) is JobStatus.QUEUED
    assert "holdfast_theme" not in answer.headers.get("set-cookie", "")


def test_a_form_never_leads_to_another_site(serving):
    job_id = serving.enqueue()
    fields = {"page": "https://evil", "status": "//evil", "cursor": "https://evil"}

    answer = serving.client.post(f"/jobs/{job_id}/cancel", data=fields)

    assert answer.headers["location"] == "/?cursor=https%3A%2F%2Fevil&note=cancelled"


# -- one job ---------------------------------------------------------------------------------------


def test_a_jobs_page_shows_its_attempts_and_events(serve):
    serving = serve(served=flaky_app())
    job_id = serving.enqueue()
    serving.work()
    submit(serving, Looked(serving.client.get(f"/jobs/{job_id}")), f"/jobs/{job_id}/retry-now")
    serving.work()

    page = Looked(serving.client.get(f"/jobs/{job_id}"))

    steps = page.texts("//ol[@class='steps']/li")
    assert len(steps) == 3
    assert steps[0].startswith("Attempt 1 · Failed after")
    assert "The mill is being oiled. GW_UNAVAILABLE" in steps[0]
    assert "next attempt due 1 h 0 min later" in steps[0]
    assert steps[1].startswith("Retry now requested")
    assert steps[2].startswith("Attempt 2 · Failed")
    events = page.texts("//table[@class='events']//tbody/tr/td[2]")
    assert events[0] == "Queued"
    assert events.count("Attempt begun") == 2


def test_a_job_without_attempts_shows_that(serving):
    page = Looked(serving.client.get(f"/jobs/{serving.enqueue()}"))

    assert "Nothing was tried yet." in page.text("//article")


def test_a_refused_upload_shows_the_reason(serving):
    job_id = serving.enqueue(uploaded=True)
    serving.run(serving.engine.reject(job_id, "NOT_PDF", "No PDF."))

    page = Looked(serving.client.get(f"/jobs/{job_id}"))

    assert "It was refused before anything was tried." in page.text("//article")
    assert "No PDF." in page.row(job_id)


@pytest.mark.parametrize("job_id", ["nothing", "%00", "a" * 300, "..", "<script>"])
def test_an_unknown_job_is_an_error_page(serving, job_id):
    answer = serving.client.get(f"/jobs/{job_id}")
    if job_id == "..":  # the client follows the redirect to the front page
        assert answer.status_code == 200
        return

    page = Looked(answer, 403)
    assert page.text("//h1") == "That is not possible."
    assert page.all("//*[@id='live']/@*[name() = 'hx-sse:connect']") == []


# -- live ------------------------------------------------------------------------------------------


def test_a_page_knows_where_its_stream_begins(serve):
    browser.need(browser.HTMX)  # a page without it is a form
    serving = serve()
    serving.enqueue()
    head = serving.run(serving.engine.store.last_sequence())

    page = Looked(serving.client.get("/"))

    (url,) = page.all("//*[@id='live']/@*[name() = 'hx-sse:connect']")
    assert url == f"/api/events?after={head}"


def test_htmx_gets_what_changes_and_nothing_else(serving):
    job_id = serving.enqueue()

    for path in ("/", f"/jobs/{job_id}"):
        part = serving.client.get(path, headers=HTMX)
        whole = serving.client.get(path, headers={"hx-request-type": "full"})

        assert part.text.startswith(("<section", "<article"))
        assert "<html" not in part.text
        assert without_time(part.text) in without_time(whole.text)
        assert "HX-Request-Type" in part.headers["vary"]


def test_the_board_reloads_the_shown_filter(serving):
    serving.enqueue()

    page = Looked(serving.client.get("/?status=active&note=retried"))

    assert page.one("//*[@id='board']").get("hx-get") == "/?status=active"


def test_a_note_reaches_htmx_in_a_header(serving):
    job_id = serving.enqueue()

    answer = serving.client.post(f"/jobs/{job_id}/cancel", headers=HTMX, follow_redirects=True)

    assert json.loads(answer.headers["hx-trigger"]) == {"holdfast:say": {"text": "Cancelled."}}
    assert "Cancelled" in answer.text
    assert "<html" not in answer.text


def test_a_refusal_reaches_htmx_in_a_header(serving):
    answer = serving.client.post("/jobs/nothing/cancel", headers=HTMX)

    assert answer.status_code == 403
    message = json.loads(answer.headers["hx-trigger"])["holdfast:say"]["text"]
    assert message == "This is not yours to see or change."


def test_during_an_outage_of_the_database_browsers_get_an_error_page(serving):
    with broken(serving, "ping"):
        answer = serving.client.get("/")

    page = Looked(answer, 503)
    assert "The database does not answer just now" in page.text("//main")
    assert answer.headers["retry-after"] == "1"


def test_during_an_outage_of_the_database_a_form_gets_an_error_page(serving):
    job_id = serving.enqueue()
    with broken(serving, "cancel"):
        answer = serving.client.post(f"/jobs/{job_id}/cancel")

    assert "The database does not answer just now" in Looked(answer, 503).text("//main")
    assert status_of(serving, job_id) is JobStatus.QUEUED


def test_pages_are_not_in_the_programs_document(serving):
    paths = serving.client.get("/api/openapi.json").json()["paths"]

    assert "/api/jobs/{job_id}/retry-now" in paths
    programs = ("/api/", "/healthz", "/readyz", "/metrics")
    assert not [path for path in paths if not path.startswith(programs)]


# -- browsers and programs -------------------------------------------------------------------------

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    "method, path, status, heading",
    [
        ("GET", "/nothing/here", 404, "Not found."),
        ("GET", "/admin/enter?token=used", 403, "That is not possible."),
        ("DELETE", "/", 405, "That is not possible."),
    ],
)
def test_a_browser_is_refused_with_a_page_and_other_clients_with_json(
    serving, method, path, status, heading
):
    page = Looked(serving.client.request(method, path, headers=BROWSER), status)
    answer = serving.client.request(method, path)

    assert page.text("//h1") == heading
    assert page.one("//a[@class='button']").get("href") == "/"
    assert answer.status_code == status
    assert answer.json()["error"]["message"] in page.text("//main")


def test_a_used_link_has_advice_for_a_new_one(serving):
    line = serving.client.get("/admin/enter?token=x").json()["error"]["message"]

    assert line == (
        "This link was used already, or is another server's. Each start prints a new one."
    )


def test_a_form_that_is_sent_too_often_is_refused_with_a_page(serve):
    serving = serve(writes_at_once=1, writes_per_second=0.01)
    serving.owner()
    serving.client.post("/theme", headers=BROWSER)

    page = Looked(serving.client.post("/theme", headers=BROWSER), 429)

    assert page.text("//h1") == "Too quickly."
    assert int(page.answer.headers["retry-after"]) > 1
    assert serving.client.post("/theme").json()["error"]["code"] == "RATE_LIMITED"


def test_the_api_answers_json_even_to_a_browser(serving):
    for path in ("/api/nothing", "/api/jobs/x"):
        assert "error" in serving.client.get(path, headers=BROWSER).json()


def test_a_bug_is_a_page_for_a_browser_too(serving):
    async def fail(*_, **__):
        raise RuntimeError("/secret/path")

    serving.engine.list = fail

    page = Looked(serving.client.get("/", headers=BROWSER), 500)

    assert page.text("//h1") == "Something went wrong."
    assert "secret" not in page.answer.text


def test_the_head_of_the_front_page_can_be_asked_for(serving):
    answer = serving.client.head("/")

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_the_page_of_a_job_shows_tracebacks_to_operators_only(serving):
    job_id = serving.enqueue(Order(fails="GW_4XX"))
    serving.work()

    own = serving.client.get(f"/jobs/{job_id}").text
    assert "ground to a halt" in own
    assert "Traceback" not in own

    page = Looked(serving.admin().get(f"/jobs/{job_id}"))
    assert "holdfast.errors.Permanent: ground to a halt" in page.text("//details/pre")
    assert page.all(f"//form[starts-with(@action, '/jobs/{job_id}')]") == []
    assert serving.admin().get("/jobs/none").status_code == 403
    assert serving.browser().get(f"/jobs/{job_id}").status_code == 403
