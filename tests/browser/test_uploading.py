"""Files come in by hand, and their rows go on by themselves."""

from playwright.sync_api import expect
from tests.browser.conftest import CALM
from tests.browser.seeing import pdf

LIMIT = int(CALM["MAX_UPLOAD_BYTES"])


def test_a_file_goes_through_all_phases_without_a_reload(see, frozen):
    seen = see(recording=True)
    page = seen.page
    page.evaluate("window.here = true")
    seen.slow_uploads(400_000)
    with page.expect_file_chooser() as choosing:
        page.get_by_text("Choose PDF files").click()

    with frozen():
        choosing.value.set_files(seen.file(("report.pdf", pdf("Hold fast", 800_000))))
        seen.expect_status("report.pdf", "Converting")
    seen.expect_status("report.pdf", "Ready")
    expect(seen.upload_row("report.pdf")).to_have_count(0)
    assert page.evaluate("window.here") is True
    said = [line.removeprefix("report.pdf: ") for line in seen.said()]
    uploading = [line for line in said if line.startswith("Uploading")]
    assert len(uploading) > 2
    shares = [int(line.split()[1]) for line in uploading]
    assert shares == sorted(shares)
    phases = ["Uploading" if line.startswith("Uploading") else line for line in said]
    order = [phases.index(each) for each in ("Uploading", "Queued", "Converting", "Ready")]
    assert order == sorted(order)
    expect(page.locator("#said")).to_have_text("report.pdf: Ready")
    steps = [f"report.pdf: {share} % uploaded" for share in (25, 50, 75, 100)]
    assert set(steps) & set(seen.heard())
    assert seen.heard()[-1] == "report.pdf: Ready"
    with page.expect_download() as downloading:
        seen.row("report.pdf").get_by_role("link", name="Download").click()
    assert downloading.value.suggested_filename == "report.xml"
    assert b"Hold" in downloading.value.path().read_bytes()


def test_several_files_are_dropped_anywhere_on_the_page(seen):
    page = seen.page
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
        seen.expect_status(name, "Ready")
    expect(page.locator("html.dragging")).to_have_count(0)
    expect(page.locator("#uploads > .row")).to_have_count(0)
    assert {job["mapping"] for job in seen.jobs()} == {"text"}
    assert {job["filename"] for job in seen.jobs()} == set(names)


def test_what_is_no_pdf_has_a_line_that_says_so(seen):
    seen.allow_refusals()
    seen.upload(("notes.txt", b"hello"), "good.pdf", ("empty.pdf", b""))

    seen.expect_status("notes.txt", "Failed")
    expect(seen.row("notes.txt")).to_contain_text(
        "This is not a PDF; only PDF files can be converted."
    )
    expect(seen.row("empty.pdf")).to_contain_text("The file is empty.")
    seen.expect_status("good.pdf", "Ready")
    expect(seen.row("notes.txt").get_by_role("button")).to_have_count(0)


def test_a_large_file_that_is_no_pdf_is_refused_while_it_is_being_sent(seen):
    seen.allow_refusals()

    seen.upload(("film.pdf", b"x" * (LIMIT - 1000)))

    expect(seen.row("film.pdf")).to_contain_text("This is not a PDF")


def test_what_is_too_large_is_not_even_sent(seen):
    sent = []
    seen.page.on("request", lambda request: sent.append(request.url))
    seen.upload(("large.pdf", pdf("large", LIMIT + 1)))

    row = seen.upload_row("large.pdf")
    expect(row).to_contain_text("This file is larger than 1.91 MB, the limit.")
    expect(row.locator(".status")).to_have_text("Not uploaded")
    expect(row.get_by_role("button", name="Try again")).to_be_hidden()
    row.get_by_role("button", name="Dismiss").click()
    expect(row).to_have_count(0)
    assert not [url for url in sent if "upload" in url]


def test_an_upload_can_be_cancelled_and_leaves_nothing(seen, service):
    seen.slow_uploads(50_000)
    seen.upload(("long.pdf", pdf("long", 1_000_000)))
    row = seen.upload_row("long.pdf")
    expect(row.locator(".status")).to_contain_text("Uploading")

    row.get_by_role("button", name="Cancel").click()

    expect(row).to_have_count(0)
    expect(seen.page.locator("#said")).to_have_text("Upload of long.pdf cancelled.")
    assert seen.jobs() == []


def test_an_upload_that_breaks_off_can_be_tried_again(see):
    seen = see(allow=("net::ERR_FAILED",))
    seen.page.route("**/api/upload", lambda route: route.abort())
    seen.upload("again.pdf")
    row = seen.upload_row("again.pdf")
    expect(row).to_contain_text("The connection was lost, so it was not uploaded.")

    seen.page.unroute("**/api/upload")
    row.get_by_role("button", name="Try again").click()

    seen.expect_status("again.pdf", "Ready")
    expect(row).to_have_count(0)


def test_too_many_at_once_are_sent_a_little_later(seen):
    seen.allow_refusals()
    answers = [{"status": 429, "headers": {"retry-after": "1"}, "json": {"error": {}}}]

    def sometimes(route):
        if answers:
            route.fulfill(**answers.pop())
        else:
            route.continue_()

    seen.page.route("**/api/upload", sometimes)
    seen.upload("patient.pdf")

    seen.expect_status("patient.pdf", "Ready")


def test_the_same_file_again_is_one_row_and_a_word(seen):
    seen.upload("same.pdf")
    seen.expect_status("same.pdf", "Ready")

    seen.upload("same.pdf")

    expect(seen.page.locator("#toast")).to_contain_text("you have converted the same file before")
    expect(seen.row("same.pdf")).to_have_count(1)
    assert len(seen.jobs()) == 1


def test_a_newcomer_without_a_pdf_converts_a_sample(seen):
    seen.page.get_by_role("radio", name="Metadata").check()
    seen.page.get_by_role("button", name="Convert a sample").click()

    seen.expect_status("sample-", "Ready")
    assert [job["mapping"] for job in seen.jobs()] == ["metadata"]


def test_a_file_that_the_filter_leaves_out_is_not_lost_from_sight(see):
    seen = see("/?status=failed")

    seen.upload("elsewhere.pdf")

    row = seen.upload_row("elsewhere.pdf")
    expect(row).to_contain_text("Not in the list that is shown.")
    seen.page.get_by_role("link", name="All").first.click()
    seen.expect_status("elsewhere.pdf", "Ready")
    expect(row).to_have_count(0)


def test_leaving_while_files_are_sent_is_asked_about(seen):
    seen.slow_uploads(50_000)
    seen.page.get_by_role("radio", name="Text").click()
    seen.upload(("long.pdf", pdf("long", 1_000_000)))
    expect(seen.upload_row("long.pdf").locator(".status")).to_contain_text("Uploading")

    with seen.page.expect_event("dialog") as asked:
        seen.page.close(run_before_unload=True)

    assert asked.value.type == "beforeunload"
    asked.value.accept()
