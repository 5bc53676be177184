"""Sixty files: select, filter, download, retry, remove; and they stay calm on a phone."""

import re
import zipfile

import pytest
from playwright.sync_api import expect
from tests.browser.many_files import BROKEN, BUSY, ManyFiles
from tests.browser.page_session import DESKTOP, PHONE, PageSession, pdf

from holdfast.jobs.model import Failed, Retry

LONG = "a name that is too long for one line of any window " * 6
NAMES = [f"Report {number:02}.pdf" for number in range(59)] + [f"{LONG}.pdf"]


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    with ManyFiles(tmp_path_factory.mktemp("many")) as found:
        yield found


@pytest.fixture
def open_as(browser, serving):
    """Open the front page as the owner of a client's jobs; console errors fail the test."""
    opened = []

    def build(client, path="/", **options):
        session = PageSession(browser, serving, reduced_motion="reduce", **options)
        opened.append(session)
        cookies = [{"name": name, "value": value, "url": serving.url}
                   for name, value in client.cookies.items()]  # fmt: skip
        session.context.add_cookies(cookies)
        session.page.goto(serving.url + path)
        if options.get("java_script_enabled", True):
            expect(session.page.locator("#pause")).to_have_text("Live")
        return session

    yield build
    for session in opened:
        session.context.close()
    for session in opened:
        assert session.complaints() == []


def sixty(serving):
    """Return a client with sixty files: 57 ready, 2 failed, the newest one being converted."""
    client = serving.browser()
    claims = serving.claim(serving.add(client, *NAMES))
    serving.finish(claims[:57])
    serving.keep_pdfs(claims[57:59])
    serving.finish(claims[57:59], Failed(BROKEN))
    return client, claims[59]


@pytest.fixture(scope="module")
def many(serving):
    """Sixty files that no test changes."""
    return sixty(serving)[0]


def few(serving, *names):
    client = serving.browser()
    return client, serving.claim(serving.add(client, *names))


def jobs(client):
    return client.get("/api/jobs").json()["jobs"]


def update(session):
    """Let a live update be asked for, and wait until it is shown."""
    with session.page.expect_event("requestfinished", session.is_update):
        session.page.evaluate("htmx.trigger('#board', 'refresh')")


# -- looks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_sixty_files_are_accessible_and_not_five_screens_long(open_as, many, size):
    session = open_as(many, viewport=size)
    page = session.page

    expect(page.locator("#summary")).to_have_text("60 files · 1 in progress · 57 done · 2 failed")
    assert session.overflow() == 0
    assert page.evaluate("document.documentElement.scrollHeight") < 4 * size["height"]
    row = session.row("Report 56.pdf")
    expect(row.locator(".row-result")).to_contain_text("12.9 kB")
    expect(row.locator(".row-result")).to_contain_text("23 h left")
    expect(page.locator(".row-elapsed")).to_have_text(re.compile(r"for (\d+ min )?\d+ s"))
    page.locator("#pick-all").check()
    expect(page.locator("#picked")).to_have_text("60 files selected")
    page.locator("#bulk-remove").click()
    question = page.locator("#confirm")
    expect(question).to_contain_text("Remove 60 files?")
    expect(question).to_contain_text("and 55 more")
    expect(question).to_contain_text("1 is still in progress and cancelled first.")
    assert session.overflow() == 0
    page.keyboard.press("Escape")
    expect(page.locator("#confirm")).to_be_hidden()
    assert len(jobs(many)) == 50


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_with_a_selection_and_a_question(open_as, many, size):
    # A few rows of each kind: axe takes long for sixty that are alike.
    session = open_as(many, "/?q=5", viewport=size)
    page = session.page
    page.locator("#pick-all").check()
    expect(page.locator("#picked")).to_have_text("14 files selected")
    assert session.axe_violations() == []
    page.emulate_media(color_scheme="dark")
    page.locator("#bulk-remove").click()
    expect(page.locator("#confirm")).to_be_visible()
    assert session.axe_violations() == []


def test_the_whole_name_is_shown_on_hover_and_at_the_keyboard(open_as, many):
    page = open_as(many, viewport=PHONE).page
    link = page.locator("a.row-name").first

    assert link.get_attribute("title") == f"{LONG}.pdf"
    before = link.bounding_box()["height"]
    page.keyboard.press("j")
    expect(link).to_be_focused()
    assert link.bounding_box()["height"] > 3 * before
    assert page.evaluate(
        "(name => name.scrollHeight <= name.clientHeight)(document.activeElement.firstChild)"
    )


# -- selecting and filtering -----------------------------------------------------------------------


def test_a_selection_and_a_typed_filter_outlive_live_updates(open_as, serving):
    client, claim = sixty(serving)
    session = open_as(client)
    page = session.page
    session.row("Report 50.pdf").locator(".pick").check()
    session.row("Report 58.pdf").locator(".pick").check()
    expect(page.locator("#picked")).to_have_text("2 files selected")
    expect(page.get_by_role("button", name="Download 1", exact=True)).to_be_enabled()
    expect(page.get_by_role("button", name="Retry 1", exact=True)).to_be_enabled()
    finder = page.locator("#finder-text")
    page.keyboard.press("/")
    expect(finder).to_be_focused()
    page.keyboard.type("report 5")
    expect(page.locator("#rows > .row")).to_have_count(9)

    page.keyboard.type("8")
    serving.finish([claim])
    expect(page.locator("#summary")).to_have_text("1 of 60 files · 1 failed")
    update(session)

    expect(page.locator("#rows > .row")).to_have_count(1)
    expect(finder).to_be_focused()
    expect(finder).to_have_value("report 58")
    expect(session.row("Report 58.pdf").locator(".pick")).to_be_checked()
    expect(page).to_have_url(re.compile(r"q=report\+58"))
    finder.fill("")
    expect(page.locator("#rows > .row")).to_have_count(30)
    expect(page.locator("#picked")).to_have_text("2 files selected")


def test_keys_select_a_row(open_as, many):
    page = open_as(many).page
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#picked")).to_have_text("1 file selected")
    page.keyboard.press("x")
    expect(page.locator("#picked")).to_have_text("Select all 60")


# -- actions ---------------------------------------------------------------------------------------


def test_all_results_and_selected_ones_are_downloaded_as_one_file(open_as, many):
    session = open_as(many)
    page = session.page

    def entries(button):
        with page.expect_download() as downloading:
            page.locator(button).click()
        assert downloading.value.suggested_filename == "results.zip"
        with zipfile.ZipFile(downloading.value.path()) as archive:
            assert archive.testzip() is None
            return archive.namelist()

    assert sorted(entries("#bulk-download")) == [f"Report {n:02}.xml" for n in range(57)]
    session.row("Report 55.pdf").locator(".pick").check()
    session.row("Report 54.pdf").locator(".pick").check()
    assert sorted(entries("#bulk-download")) == ["Report 54.xml", "Report 55.xml"]


def test_all_failed_files_are_retried_at_once(open_as, serving):
    client, claims = few(serving, "a.pdf", "b.pdf", "c.pdf")
    serving.keep_pdfs(claims)
    serving.finish(claims[:2], Failed(BROKEN))
    serving.finish(claims[2:])
    page = open_as(client).page

    page.get_by_role("button", name="Retry all failed").click()

    expect(page.locator("#toast")).to_have_text("2 files back in the queue.")
    expect(page.locator("#summary")).to_have_text("3 files · 2 in progress · 1 done")
    expect(page.locator("#bulk-retry")).to_have_count(0)


def test_rows_are_removed_after_a_question_that_says_what_goes(open_as, serving):
    client, claims = few(serving, "keep.pdf", "first.pdf", "second.pdf", "third.pdf")
    serving.finish(claims)
    session = open_as(client)
    page = session.page
    dialog = page.locator("#confirm")
    session.row("first.pdf").get_by_role("link", name="Remove first.pdf").click()
    expect(dialog).to_contain_text("first.pdf")
    expect(dialog).to_contain_text("The PDF and its XML are deleted now")
    expect(dialog.get_by_role("button", name="Keep")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    assert len(jobs(client)) == 4

    session.row("first.pdf").get_by_role("link", name="Remove first.pdf").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(page.locator("#toast")).to_have_text("1 file removed.")
    expect(session.row("first.pdf")).to_have_count(0)
    for name in ("second.pdf", "third.pdf"):
        session.row(name).locator(".pick").check()
    page.locator("#bulk-remove").click()
    expect(dialog.get_by_role("heading")).to_have_text("Remove 2 files?")
    dialog.get_by_role("button", name="Remove").click()

    expect(page.locator("#toast")).to_have_text("2 files removed.")
    expect(page.locator("#rows > .row")).to_have_count(1)
    expect(page.locator("#picked")).to_have_text("Select all")
    assert [job["filename"] for job in jobs(client)] == ["keep.pdf"]
    assert serving.results() & {claim.job_id for claim in claims} == {claims[0].job_id}


def test_a_file_is_removed_on_its_own_page(open_as, serving):
    client, claims = few(serving, "alone.pdf")
    serving.finish(claims)
    page = open_as(client, f"/jobs/{claims[0].job_id}").page

    page.get_by_role("link", name="Remove alone.pdf").click()
    page.locator("#confirm-yes").click()

    expect(page.locator("#toast")).to_have_text("1 file removed.")
    assert jobs(client) == []


def test_all_of_it_works_without_scripts(open_as, serving):
    client, claims = few(serving, "a.pdf", "b.pdf", "c.pdf")
    serving.keep_pdfs(claims)
    serving.finish(claims[:2])
    serving.finish(claims[2:], Failed(BROKEN))
    session = open_as(client, java_script_enabled=False)
    page = session.page
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download all").click()
    with zipfile.ZipFile(downloading.value.path()) as archive:
        assert sorted(archive.namelist()) == ["a.xml", "b.xml"]
    page.get_by_role("button", name="Retry all failed").click()
    expect(page.locator("#toast")).to_have_text("1 file back in the queue.")
    page.locator("#finder-text").fill("B")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#rows > .row")).to_have_count(1)
    session.row("b.pdf").locator(".pick").check()
    page.get_by_role("button", name="Remove selected").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Remove 1 file?")
    assert session.overflow() == 0
    page.get_by_role("button", name="Remove").click()
    expect(page.locator("#toast")).to_have_text("1 file removed.")
    assert {job["filename"] for job in jobs(client)} == {"a.pdf", "c.pdf"}


# -- uploading and outages -------------------------------------------------------------------------


def test_many_uploads_have_one_bar_and_leave_one_list(open_as, serving):
    session = open_as(serving.browser(), viewport=PHONE)
    page = session.page
    held, going = [], []

    def hold(route):
        if going:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/upload", hold)
    session.upload(*[(f"{number}.pdf", pdf(str(number))) for number in range(40)])

    total = page.locator(".upload-total")
    expect(total).to_contain_text(re.compile(r"Uploading 40 files · 0 sent · \d+ %"))
    expect(page.locator("#uploads > .row:visible")).to_have_count(3)
    assert session.axe_violations() == []
    going.append(True)
    for route in held:
        route.continue_()

    expect(total).to_have_count(0)
    expect(page.locator("#summary")).to_have_text("40 files · 40 in progress")
    update(session)
    expect(page.locator("#uploads > .row")).to_have_count(0)
    expect(page.locator("#rows > .row")).to_have_count(30)


def test_uploads_that_are_not_sent_yet_are_cancelled_together(open_as, serving):
    client = serving.browser()
    session = open_as(client)
    session.page.route("**/api/upload", lambda route: None)
    session.upload("a.pdf", "b.pdf", "c.pdf", "d.pdf", "e.pdf")

    session.page.get_by_role("button", name="Cancel what is not sent").click()

    expect(session.page.locator("#uploads > *")).to_have_count(0)
    assert jobs(client) == []


def test_a_server_that_is_away_is_said_in_words(open_as, many):
    session = open_as(many, "/?q=5", allow=("net::ERR_", "htmx:"))
    page = session.page
    away = page.locator("#away")
    page.route("**/?*", lambda route: route.abort())
    expect(away).to_be_hidden()
    for _ in range(2):
        with page.expect_event("requestfailed", session.is_update):
            page.evaluate("htmx.trigger('#board', 'refresh')")

    expect(away).to_contain_text("The server does not answer. What you uploaded is safe.")
    assert session.axe_violations() == []
    page.unroute_all()
    update(session)
    expect(away).to_be_hidden()


def test_an_outage_is_explained_once_and_rows_keep_their_own_errors(open_as, serving):
    client, claims = few(serving, "first.pdf", "second.pdf")
    serving.finish(claims, Retry(600, BUSY))
    serving.open_breaker()
    serving.add(client, "untried.pdf")
    session = open_as(client)
    page = session.page

    expect(page.get_by_text("Gateway busy, paused. Will retry automatically.")).to_have_count(1)
    expect(page.locator("#banners")).to_contain_text(
        re.compile(r"3 of your conversions wait. Since .*\d\d.* · next check in (\d+ min )?\d+ s")
    )
    expect(session.row("first.pdf")).to_contain_text(f"Last error: {BUSY.message}")
    expect(session.row("untried.pdf").locator(".status")).to_have_text("Paused")
    expect(session.row("untried.pdf").locator(".row-why")).to_have_count(0)
    assert session.axe_violations() == []
