"""Uploads by a user, and the progress of their rows."""

from playwright.sync_api import expect
from tests.browser.conftest import CALM
from tests.browser.page_session import pdf

LIMIT = int(CALM["MAX_UPLOAD_BYTES"])


def test_a_file_goes_through_all_phases_without_a_reload(open_session, frozen):
    session = open_session(recording=True)
    page = session.page
    page.evaluate("window.here = true")
    session.slow_uploads(400_000)
    with page.expect_file_chooser() as choosing:
        page.get_by_text("Choose PDF files").click()

    with frozen():
        choosing.value.set_files(session.file(("report.pdf", pdf("Hold fast", 800_000))))
        session.expect_status("report.pdf", "Converting")
    session.expect_status("report.pdf", "Ready")
    expect(session.upload_row("report.pdf")).to_have_count(0)
    assert page.evaluate("window.here") is True
    statuses = [line.removeprefix("report.pdf: ") for line in session.shown_statuses()]
    uploading = [line for line in statuses if line.startswith("Uploading")]
    assert len(uploading) > 2
    shares = [int(line.split()[1]) for line in uploading]
    assert shares == sorted(shares)
    phases = ["Uploading" if line.startswith("Uploading") else line for line in statuses]
    order = [phases.index(each) for each in ("Uploading", "Queued", "Converting", "Ready")]
    assert order == sorted(order)
    expect(page.locator("#said")).to_have_text("report.pdf: Ready")
    steps = [f"report.pdf: {share} % uploaded" for share in (25, 50, 75, 100)]
    assert set(steps) & set(session.announcements())
    assert session.announcements()[-1] == "report.pdf: Ready"
    with page.expect_download() as downloading:
        session.row("report.pdf").get_by_role("link", name="Download").click()
    assert downloading.value.suggested_filename == "report.xml"
    assert b"Hold" in downloading.value.path().read_bytes()


def test_several_files_are_dropped_anywhere_on_the_page(session):
    page = session.page
    names = ["one.pdf", "two.pdf", "three.pdf", "four.pdf", "five.pdf"]
    page.get_by_role("radio", name="Text").check()
    files = [[name, list(pdf(name))] for name in names]
    dropped = page.evaluate_handle(
        """files => {
             const data = new DataTransfer();
             for (const [name, bytes] of files)
               data.items.add(new File([new Uint8Array(bytes)], name, { type: "application/pdf" }));
             return data;
           }""",
        files,
    )

    page.dispatch_event("h1", "dragover", {"dataTransfer": dropped})
    expect(page.locator("html.dragging")).to_have_count(1)
    page.dispatch_event("h1", "drop", {"dataTransfer": dropped})

    for name in names:
        session.expect_status(name, "Ready")
    expect(page.locator("html.dragging")).to_have_count(0)
    expect(page.locator("#uploads > .row")).to_have_count(0)
    assert {job["mapping"] for job in session.jobs()} == {"text"}
    assert {job["filename"] for job in session.jobs()} == set(names)


def test_a_file_that_is_not_a_pdf_shows_the_reason(session):
    session.allow_refusals()
    session.upload(("notes.txt", b"hello"), "good.pdf", ("empty.pdf", b""))

    session.expect_status("notes.txt", "Failed")
    expect(session.row("notes.txt")).to_contain_text("Only PDF files are supported.")
    expect(session.row("empty.pdf")).to_contain_text("The file is empty.")
    session.expect_status("good.pdf", "Ready")
    expect(session.row("notes.txt").get_by_role("button")).to_have_count(0)


def test_a_large_file_that_is_not_a_pdf_is_refused_during_its_upload(session):
    session.allow_refusals()

    session.upload(("film.pdf", b"x" * (LIMIT - 1000)))

    expect(session.row("film.pdf")).to_contain_text("Only PDF files are supported.")


def test_a_file_that_is_too_large_is_not_sent(session):
    sent = []
    session.page.on("request", lambda request: sent.append(request.url))
    session.upload(("large.pdf", pdf("large", LIMIT + 1)))

    row = session.upload_row("large.pdf")
    expect(row).to_contain_text("File exceeds 1.91 MB limit.")
    expect(row.locator(".status")).to_have_text("Not uploaded")
    expect(row.get_by_role("button", name="Try again")).to_be_hidden()
    row.get_by_role("button", name="Dismiss").click()
    expect(row).to_have_count(0)
    assert not [url for url in sent if "upload" in url]


def test_an_upload_can_be_cancelled_and_leaves_nothing(session, service):
    session.slow_uploads(50_000)
    session.upload(("long.pdf", pdf("long", 1_000_000)))
    row = session.upload_row("long.pdf")
    expect(row.locator(".status")).to_contain_text("Uploading")

    row.get_by_role("button", name="Cancel").click()

    expect(row).to_have_count(0)
    expect(session.page.locator("#said")).to_have_text("Upload of long.pdf cancelled.")
    assert session.jobs() == []


def test_an_upload_that_breaks_off_can_be_tried_again(open_session):
    session = open_session(allow=("net::ERR_FAILED",))
    session.page.route("**/api/upload", lambda route: route.abort())
    session.upload("again.pdf")
    row = session.upload_row("again.pdf")
    expect(row).to_contain_text("The connection was lost, so it was not uploaded.")

    session.page.unroute("**/api/upload")
    row.get_by_role("button", name="Try again").click()

    session.expect_status("again.pdf", "Ready")
    expect(row).to_have_count(0)


def test_too_many_at_once_are_sent_a_little_later(session):
    session.allow_refusals()
    answers = [{"status": 429, "headers": {"retry-after": "1"}, "json": {"error": {}}}]

    def sometimes(route):
        if answers:
            route.fulfill(**answers.pop())
        else:
            route.continue_()

    session.page.route("**/api/upload", sometimes)
    session.upload("patient.pdf")

    session.expect_status("patient.pdf", "Ready")


def test_the_same_file_again_is_one_row_and_a_message(session):
    session.upload("same.pdf")
    session.expect_status("same.pdf", "Ready")

    session.upload("same.pdf")

    expect(session.page.locator("#toast")).to_contain_text(
        "you have converted the same file before"
    )
    expect(session.row("same.pdf")).to_have_count(1)
    assert len(session.jobs()) == 1


def test_a_new_user_without_a_pdf_converts_a_sample(session):
    session.page.get_by_role("radio", name="Metadata").check()
    session.page.get_by_role("button", name="Convert a sample").click()

    session.expect_status("sample-", "Ready")
    assert [job["mapping"] for job in session.jobs()] == ["metadata"]


def test_a_file_that_the_filter_leaves_out_is_not_lost_from_sight(open_session):
    session = open_session("/?status=failed")

    session.upload("elsewhere.pdf")

    row = session.upload_row("elsewhere.pdf")
    expect(row).to_contain_text("Not in the list that is shown.")
    session.page.get_by_role("link", name="All").first.click()
    session.expect_status("elsewhere.pdf", "Ready")
    expect(row).to_have_count(0)


def test_leaving_while_files_are_sent_is_asked_about(session):
    session.slow_uploads(50_000)
    session.page.get_by_role("radio", name="Text").click()
    session.upload(("long.pdf", pdf("long", 1_000_000)))
    expect(session.upload_row("long.pdf").locator(".status")).to_contain_text("Uploading")

    with session.page.expect_event("dialog") as asked:
        session.page.close(run_before_unload=True)

    assert asked.value.type == "beforeunload"
    asked.value.accept()
