"""The list of one owner's jobs."""

import re

import pytest
from tests.http.live_server import Order
from tests.http.pages.page_reader import Looked
from tests.http.pages.sample_app import SampleApp

from holdfast import App, BreakerPolicy, Downstream, Exponential, RetryPolicy
from holdfast.http.pages import job_list
from holdfast.http.pages.job_list import View

HOSTILE = [
    '<script>alert("x")</script>',
    "\"><img src=x onerror='alert(1)'>",
    "{{ 7 * 7 }} {% raw %}",
    "a & b &lt; c",
    "snow ☃ and 🎉.pdf",
    "مستند عربي.pdf",
    "x" * 5000,
    "</li></ul></section>",
]


@pytest.fixture
def press(serve, tmp_path):
    return serve(served=SampleApp(tmp_path / "press"))


def shown(serving, path="/", **params):
    page = Looked(serving.client.get(path, params=params or None))
    return [row.get("id").removeprefix("job-") for row in page.all("//ul[@id='rows']/li")]


def test_rows_are_the_owners_newest_first(serving):
    ids = [serving.enqueue() for _ in range(3)]
    other = serving.browser()
    foreign = serving.enqueue(client=other)

    assert shown(serving) == ids[::-1]
    page = Looked(other.get("/"))
    assert foreign in page.answer.text
    assert not any(each in page.answer.text for each in ids)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_escaped(press, name):
    job_id = press.enqueue(meta={"filename": name, "mapping": name[:50], "bytes": 10})

    for path in ("/", f"/jobs/{job_id}"):
        page = Looked(press.client.get(path))

        (found, *_) = page.all(f"//*[@id='job-{job_id}']//bdi")
        assert found.text == name
        assert len(found) == 0
        assert page.all("//img") == []
        assert page.all("//script[not(@src)]") == []


def test_an_id_with_special_characters_can_be_opened_and_cancelled(serving):
    job_id = serving.enqueue(id="a:b~c.d-e_f")
    page = Looked(serving.client.get("/"))
    (link,) = page.all("//a[contains(@class, 'row-name')]/@href")
    (action,) = page.all("//form[contains(@action, '/cancel')]/@action")

    assert Looked(serving.client.get(link)).all("//h1/bdi")
    assert serving.client.post(action).status_code == 303
    assert serving.run(serving.engine.get(job_id)).status == "cancelled"


def test_the_filter_is_in_the_address_and_on_the_server(serving):
    failed = serving.enqueue(Order(fails="GW_4XX"))
    done = serving.enqueue()
    serving.work()
    queued = serving.enqueue()
    cancelled = serving.enqueue()
    serving.run(serving.engine.cancel(cancelled))

    assert shown(serving) == [cancelled, queued, done, failed]
    assert shown(serving, status="active") == [queued]
    assert shown(serving, status="complete") == [done]
    assert shown(serving, status="failed") == [failed]
    assert shown(serving, status="cancelled") == [cancelled]
    assert shown(serving, status="'; drop table") == [cancelled, queued, done, failed]
    page = Looked(serving.client.get("/?status=failed"))
    links = page.all("//nav[@aria-label='Filter by status']//a")
    assert [
        text for each in links if each.get("aria-current") for text in each.xpath("text()")
    ] == ["Failed "]
    assert page.texts("//nav[@aria-label='Filter by status']//a") == [
        "All 4",
        "In progress 1",
        "Done 1",
        "Failed 1",
        "Cancelled 1",
    ]
    assert links[3].get("href") == "/?status=failed"


def test_counts_have_labels(serving, monkeypatch):
    monkeypatch.setattr(job_list, "COUNTED", 3)
    for _ in range(3):
        serving.enqueue()
    page = Looked(serving.client.get("/"))
    assert page.text("//*[@id='summary']") == "3 jobs · 3 in progress"
    assert page.all("//*[@class='scope']") == []
    serving.enqueue()

    page = Looked(serving.client.get("/?status=active"))

    assert page.text("//*[@id='summary']") == "newest 3 jobs · 3 in progress"
    assert page.text("//*[@class='scope']") == "Counts cover your newest 3 jobs."


def test_counts_read_well(press):
    summary = "//*[@id='summary']"
    assert Looked(press.client.get("/")).all(summary) == []
    press.enqueue()
    assert Looked(press.client.get("/")).text(summary) == "1 leaf · 1 in progress"
    press.enqueue(Order(fails="GW_4XX"))
    press.work()
    press.run(press.engine.cancel(press.enqueue()))

    page = Looked(press.client.get("/"))

    assert page.text(summary) == "3 leaves · 1 done · 1 failed · 1 cancelled"
    assert page.text("//*[@id='picked']") == "Select all 3"


def test_rows_are_filtered_by_a_part_of_their_names(press, monkeypatch):
    monkeypatch.setattr(job_list, "PAGE_SIZE", 2)
    monkeypatch.setattr(job_list, "COUNTED", 4)
    ids = [
        press.enqueue(meta={"filename": f"{'Report' if n % 2 else 'Invoice'} {n}.pdf"})
        for n in range(10)
    ]
    reports = ids[1::2][::-1]

    page = Looked(press.client.get("/", params={"q": " rEPOrt "}))

    rows = [row.get("id").removeprefix("job-") for row in page.all("//ul[@id='rows']/li")]
    assert rows == reports[:2]
    assert page.text("//*[@id='summary']") == "2 of newest 4 leaves · 2 in progress"
    assert page.one("//*[@id='finder-text']").get("value") == "rEPOrt"
    assert page.texts("//nav[@aria-label='Filter by status']//a")[:2] == ["All 2", "In progress 2"]
    second = page.one("//*[@id='page-older']").get("href")
    assert shown(press, second) == reports[2:4]
    third = Looked(press.client.get(second)).one("//*[@id='page-older']").get("href")
    assert shown(press, third) == reports[4:]
    assert shown(press, q="report 3", status="active") == [ids[3]]
    assert shown(press, q="report 3", status="failed") == []
    nothing = Looked(press.client.get("/", params={"q": "nothing like it"}))
    assert "None of your pressings is in this list." in nothing.text("//*[@id='empty']")
    assert nothing.all("//*[@id='bulk']") == []


def test_a_filter_of_names_reads_on_only_so_far(press, monkeypatch):
    monkeypatch.setattr(job_list, "PAGE_SIZE", 1)
    monkeypatch.setattr(job_list, "COUNTED", 1)
    monkeypatch.setattr(job_list, "_MOST_BATCHES", 2)
    wanted = press.enqueue(meta={"filename": "wanted.pdf"})
    for _ in range(2):
        press.enqueue(meta={"filename": "other.pdf"})

    page = Looked(press.client.get("/", params={"q": "wanted"}))

    assert page.all("//ul[@id='rows']") == []
    assert shown(press, page.one("//*[@id='page-older']").get("href")) == [wanted]


def test_pages_link_to_the_next_and_to_the_first(serving, monkeypatch):
    monkeypatch.setattr(job_list, "PAGE_SIZE", 2)
    ids = [serving.enqueue() for _ in range(5)]
    seen, path = [], "/?status=active"
    for _ in range(3):
        page = Looked(serving.client.get(path))
        seen += shown(serving, path)
        older = page.all("//a[@id='page-older']/@href")
        path = older[0] if older else None

    assert seen == ids[::-1]
    assert path is None
    assert page.all("//a[@id='page-newer']/@href") == ["/?status=active"]


@pytest.mark.parametrize("cursor", ["nonsense", "-1", "9" * 400, "x" * 5000, "%00"])
def test_an_invalid_cursor_is_the_first_page(serving, cursor):
    job_id = serving.enqueue()

    assert shown(serving, cursor=cursor) == [job_id]


def test_a_filter_without_matches_shows_that_and_a_link_back(serving):
    serving.enqueue()

    page = Looked(serving.client.get("/?status=failed"))

    assert "Nothing here." in page.text("//*[@id='empty']")
    assert page.all("//*[@id='empty']//a/@href") == ["/"]


def test_a_new_user_sees_no_filter(serving):
    assert Looked(serving.client.get("/")).all("//nav[@aria-label='Filter by status']") == []


def test_buttons_are_there_only_where_they_work(press):
    failed = press.enqueue(Order(fails="GW_4XX"), meta={"filename": "demo"})
    done = press.enqueue(meta={"filename": "demo"})
    gone = press.enqueue(meta={"filename": "demo", "gone": True})
    press.work()
    queued = press.enqueue(meta={"filename": "demo"})
    later = press.enqueue(meta={"filename": "demo"}, run_at=4_000_000_000.0)

    page = Looked(press.client.get("/"))

    assert page.buttons(failed) == ["Retry"]
    assert page.buttons(done) == ["Download"]
    assert page.buttons(gone) == []
    assert "has been removed" in page.row(gone)
    assert page.buttons(queued) == ["Cancel"]
    assert page.buttons(later) == ["Cancel"]
    assert "Scheduled" in page.row(later)


def test_a_row_shows_the_known_facts_of_the_file(press):
    job_id = press.enqueue(meta={"filename": "a.pdf", "mapping": "layout", "bytes": 1536})

    row = Looked(press.client.get("/")).row(job_id)

    assert "a.pdf layout · 1.5 kB · just now" in row
    assert "Queued" in row


def test_while_a_downstream_is_held_there_is_a_banner_and_rows_are_not_failed(serving):
    job_id = serving.enqueue()
    assert Looked(serving.client.get("/")).all("//*[@role='alert']") == []
    serving.run(serving.engine.downstreams.hold("mill"))

    page = Looked(serving.client.get("/"))

    assert page.texts("//*[@role='alert']") == ["Mill busy, paused. Will retry automatically."]
    assert "1 of your jobs waits." in page.text("//*[@id='banners']")
    # The banner says it once; a hold by a person has no end that is known.
    assert "Paused Cancel" in page.row(job_id)
    assert "next check" not in page.text("//*[@id='banners']")
    assert page.one(f"//*[@id='job-{job_id}']").get("data-look") == "held"
    job_page = Looked(serving.client.get(f"/jobs/{job_id}"))
    assert job_page.texts("//*[@role='alert']") == ["Mill busy, paused. Will retry automatically."]
    serving.run(serving.engine.downstreams.release("mill"))
    assert Looked(serving.client.get("/")).all("//*[@role='alert']") == []


def mill_app(mode, error):
    """Return an app whose breaker opens at the first failure, for an hour."""
    app = App("demo")
    breaker = BreakerPolicy(consecutive_failures=1, open_for=3600)
    policy = RetryPolicy(max_attempts=3, backoff=Exponential(base=7200, cap=7200, jitter=0))

    @app.job(retry=policy, downstream=Downstream("mill", breaker=breaker, mode=mode))
    async def grind(ctx, args: Order) -> int:
        raise error

    return app


def test_a_job_that_waits_for_its_retry_is_paused_while_the_breaker_is_open(serve):
    serving = serve(served=mill_app("hold", ConnectionError("no mill")))
    job_id = serving.enqueue()
    serving.work()

    page = Looked(serving.client.get("/"))

    assert "Paused Attempt 1 of 3 Last error: ConnectionError: no mill" in page.row(job_id)
    banner = page.text("//*[@id='banners']")
    assert "1 of your jobs waits." in banner
    assert re.search(r"Since \d\d:\d\d UTC · next check in 59 min \d+ s|in 1 h 0 min", banner)
    assert page.all("//ul[@id='rows']//time[@data-until]") == []
    assert page.buttons(job_id) == ["Cancel"]


def test_in_fail_fast_mode_there_is_a_banner(serve):
    serving = serve(served=mill_app("fail_fast", ConnectionError("no mill")))
    assert Looked(serving.client.get("/")).all("//*[@role='alert']") == []
    serving.enqueue()
    serving.work()

    page = Looked(serving.client.get("/"))

    alert = "Mill does not answer: jobs fail at once for now."
    assert page.texts("//*[@role='alert']") == [alert]
    assert "What has failed can be retried later." in page.text("//*[@id='banners']")
    refused = serving.enqueue()
    serving.work()
    assert "Failed" in Looked(serving.client.get("/")).row(refused)
    job_page = Looked(serving.client.get(f"/jobs/{refused}"))
    assert job_page.texts("//*[@role='alert']") == [alert]
    serving.run(serving.engine.downstreams.reset("mill"))
    assert Looked(serving.client.get("/")).all("//*[@role='alert']") == []


def test_the_url_of_rows_has_only_necessary_parameters():
    assert View().path() == "/"
    assert View("failed").path() == "/?status=failed"
    assert View("failed", "a&b").path(note="x") == "/?status=failed&cursor=a%26b&note=x"
    assert View.of("nothing", "") == View()
    assert View.of(None, None) == View()
