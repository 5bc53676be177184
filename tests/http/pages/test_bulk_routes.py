"""Forms that act on many rows, as a browser without scripts sends them."""

import io
import zipfile

import pytest
from tests.http.live_server import Order
from tests.http.pages.page_reader import Looked
from tests.http.pages.sample_app import SampleApp


@pytest.fixture
def press(serve, tmp_path):
    return serve(served=SampleApp(tmp_path / "press"))


def add(serving, *names, **order):
    return [serving.enqueue(Order(**order), meta={"filename": name}) for name in names]


def send(serving, action, path="/", **fields):
    """Send the form of the page at `path` to `action`, as its button does."""
    page = Looked(serving.client.get(path))
    form = page.one("//form[@id='bulk']")
    assert page.one(f"//button[@formaction='{action}']").getparent().getparent() is form
    given = {each.get("name"): each.get("value") for each in form.xpath("input")}
    return serving.client.post(action, data={**given, **fields}, follow_redirects=False)


def note(serving, answer):
    """Return the line that the page shows after a form."""
    assert answer.status_code == 303, answer.text
    return Looked(serving.client.get(answer.headers["location"])).text("//*[@id='toast']")


def entries(answer):
    assert answer.headers["content-type"] == "application/zip"
    return len(zipfile.ZipFile(io.BytesIO(answer.content)).namelist())


def statuses(serving):
    jobs = serving.client.get("/api/jobs").json()["jobs"]
    return {job["id"]: job["status"] for job in jobs}


def test_every_row_has_a_box_of_the_form_for_many(press):
    ids = add(press, "a.pdf", "b.pdf")

    page = Looked(press.client.get("/"))

    boxes = page.all("//ul[@id='rows']//input[@type='checkbox'][@form='bulk'][@name='id']")
    assert [box.get("value") for box in boxes] == ids[::-1]
    assert [box.get("aria-label") for box in boxes] == ["Select b.pdf", "Select a.pdf"]
    assert page.all("//*[@id='bulk-download'] | //*[@id='bulk-retry']") == []


def test_without_a_selection_a_download_has_all_results_of_the_view(press):
    add(press, "a.pdf", "b.pdf", "other.txt")
    press.work()
    add(press, "waiting.pdf")

    assert entries(send(press, "/bulk/download")) == 3
    assert entries(send(press, "/bulk/download", "/?q=.PDF")) == 2
    assert entries(send(press, "/bulk/download", "/?status=complete")) == 3


def test_a_download_has_what_is_selected(press):
    first, second, _ = add(press, "a.pdf", "b.pdf", "c.pdf")
    press.work()

    assert entries(send(press, "/bulk/download", id=[first, second])) == 2
    assert entries(send(press, "/bulk/download", id=[first], all="1")) == 3


def test_a_download_without_results_goes_back_with_a_note(press):
    (done,) = add(press, "done.pdf")
    press.work()
    (waiting,) = add(press, "waiting.pdf")

    answer = send(press, "/bulk/download", id=[waiting])

    assert note(press, answer) == "None of these has a result to download."
    assert statuses(press) == {done: "complete", waiting: "queued"}


def test_all_failed_rows_of_the_view_are_retried(press):
    first, second = add(press, "a.pdf", "b.txt", fails="GW_4XX")
    press.work()

    assert note(press, send(press, "/bulk/retry", "/?q=pdf")) == "1 leaf back in the queue."
    assert statuses(press) == {first: "queued", second: "failed"}
    assert note(press, send(press, "/bulk/retry")) == "1 leaf back in the queue."
    assert press.client.post("/bulk/retry", follow_redirects=False).headers["location"] == (
        "/?note=retried-many&done=0&left=0"
    )


def test_what_cannot_be_retried_is_counted(press):
    gone = press.enqueue(Order(fails="GW_4XX"), meta={"filename": "a.pdf", "gone": True})
    (failed,) = add(press, "b.pdf", fails="GW_4XX")
    press.work()

    line = note(press, send(press, "/bulk/retry", id=[gone, failed]))

    assert line == "1 leaf back in the queue. 1 leaf cannot be retried."


def test_a_removal_is_asked_about_and_then_done(press):
    ids = add(press, *(f"{n}.pdf" for n in range(12)))
    press.work()
    (waiting,) = add(press, "waiting.pdf")

    page = Looked(send(press, "/bulk/remove", id=[*ids, waiting]))

    assert page.text("//h1") == "Remove 13 leaves?"
    names = page.texts("//ul[@class='going']/li")
    assert names == [*(f"{n}.pdf" for n in range(10)), "and 3 more"]
    text = page.text("//section")
    assert "What was pressed is deleted. This cannot be undone. 1 is still in progress" in text
    assert len(statuses(press)) == 13
    form = page.one("//form[@action='/bulk/remove']")
    fields = [(each.get("name"), each.get("value")) for each in form.xpath("input")]
    answer = press.client.post(
        "/bulk/remove",
        content="&".join(f"{name}={value}" for name, value in fields),
        headers={"content-type": "application/x-www-form-urlencoded"},
        follow_redirects=False,
    )
    assert note(press, answer) == "13 leaves removed."
    assert statuses(press) == {}


def test_selecting_all_means_what_was_in_sight(press):
    old = add(press, "a.pdf", "b.pdf")
    page = Looked(press.client.get("/"))
    until = page.one("//input[@name='until']").get("value")
    (new,) = add(press, "c.pdf")

    answer = press.client.post(
        "/bulk/remove", data={"all": "1", "until": until, "confirmed": "1"}, follow_redirects=False
    )

    assert note(press, answer) == "2 leaves removed."
    assert set(statuses(press)) == {new}
    assert new not in old


def test_a_removal_without_a_selection_removes_nothing(press):
    add(press, "a.pdf")

    answer = send(press, "/bulk/remove", confirmed="1")

    assert note(press, answer) == "Select what to remove first."
    assert len(statuses(press)) == 1


def test_one_row_is_removed_after_a_question(press):
    kept, gone = add(press, "kept.pdf", "gone.pdf")
    row = Looked(press.client.get("/?q=gone")).one(f"//*[@id='do-remove-{gone}']")

    page = Looked(press.client.get(row.get("href")))

    assert page.text("//h1") == "Remove 1 leaf?"
    form = page.one(f"//form[@action='/jobs/{gone}/remove']")
    fields = {each.get("name"): each.get("value") for each in form.xpath("input")}
    answer = press.client.post(f"/jobs/{gone}/remove", data=fields, follow_redirects=False)
    assert answer.headers["location"] == "/?q=gone&note=removed-many&done=1&left=0"
    assert set(statuses(press)) == {kept}


def test_anothers_rows_are_neither_shown_nor_changed(press):
    (job,) = add(press, "mine.pdf")
    other = press.browser()

    assert other.get(f"/jobs/{job}/remove").status_code == 403
    assert other.post(f"/jobs/{job}/remove").status_code == 403
    fields = {"id": [job], "confirmed": "1"}
    answer = other.post("/bulk/remove", data=fields, follow_redirects=False)
    assert note(press, answer) == "Nothing was changed."
    assert set(statuses(press)) == {job}


@pytest.mark.parametrize("until", ["", "yesterday", "nan"])
def test_a_form_with_nonsense_in_it_is_no_error(press, until):
    (job,) = add(press, "a.pdf")

    fields = {"all": "1", "until": until, "status": "?", "cursor": "?", "id": ["\0", "x" * 999]}
    for action in ("retry", "remove"):
        answer = press.client.post(
            f"/bulk/{action}", data={**fields, "confirmed": "1"}, follow_redirects=False
        )
        assert note(press, answer) == "Nothing was changed."
    assert statuses(press) == {job: "queued"}
