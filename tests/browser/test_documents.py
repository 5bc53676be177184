"""The pages of the ingestion app: live, by keyboard, wide and narrow, without scripts."""

import re

import pytest
from playwright.sync_api import expect
from tests.apps.ingestion.document_server import DocumentServer
from tests.browser.page_session import DESKTOP, PHONE, PageSession

SENTENCE = "Otters swim in cold rivers and eat fish."
HOSTILE = '"><script>window.taken = true</script><img src=x onerror="window.taken = true">'


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """A server of the app with a worker."""
    with DocumentServer(tmp_path_factory.mktemp("documents")) as server:
        yield server


@pytest.fixture
def visit(browser, documents):
    """Open a page in a fresh session; console errors fail the test."""
    opened = []

    def build(path="/documents", **options):
        opened.append(PageSession(browser, documents, **options))
        opened[-1].page.goto(documents.url + path)
        return opened[-1]

    yield build
    for session in opened:
        session.context.close()
        assert session.complaints() == []


def status(session, name):
    return session.row(name).locator(".status")


# -- adding --------------------------------------------------------------------------------------


def test_addresses_are_added_and_followed_live_to_the_end(documents, visit):
    session, web = visit(recording=True), documents.site()
    page = session.page
    expect(page.locator("#pause")).to_have_text("Live")
    one, two = web.html("/one", "Live one", SENTENCE), web.url("/gone")

    page.get_by_label("Addresses, one per line").fill(f"{one}\n{two}")
    page.get_by_role("button", name="Add", exact=True).click()

    expect(page.locator("#toast")).to_contain_text("Added.")
    expect(status(session, "Live one")).to_have_text("Done")
    expect(status(session, two)).to_have_text("Failed")
    expect(session.row(two)).to_contain_text("The site has no page at this address")
    expect(page.get_by_label("Addresses, one per line")).to_have_value("")
    assert "Live one: Done" in " ".join(session.announcements())


def test_a_refused_address_stays_in_its_field(visit):
    session = visit()
    session.allow_refusals()
    page = session.page

    page.get_by_label("Addresses, one per line").fill("ftp://files.example")
    page.get_by_role("button", name="Add", exact=True).click()

    expect(page.locator("#toast")).to_contain_text("http")
    expect(page.get_by_label("Addresses, one per line")).to_have_value("ftp://files.example")


def test_a_text_and_its_labels_are_added(documents, visit):
    session = visit()
    page = session.page
    page.get_by_role("radio", name="Text").check()
    page.get_by_label("Title optional").fill("Typed here")
    page.get_by_label("Text", exact=True).last.fill(SENTENCE)
    page.get_by_text("Labels to filter by").click()
    page.get_by_label("One per line, such as").fill("team: blue")

    page.get_by_role("button", name="Add", exact=True).click()

    expect(status(session, "Typed here")).to_have_text("Done")
    expect(page.get_by_role("radio", name="Text")).to_be_checked()
    session.row("Typed here").get_by_role("link", name="team: blue").click()
    expect(page).to_have_url(re.compile(r"metadata=team%3Ablue"))
    expect(page.locator("#rows > .row")).to_have_count(1)


def test_files_are_uploaded_where_they_are_chosen(documents, visit):
    session = visit()
    page = session.page
    page.get_by_role("radio", name="Files").check()

    page.set_input_files(
        "#file",
        [
            {"name": "chosen.txt", "mimeType": "text/plain", "buffer": b"Words of a file."},
            {
                "name": "chosen.md",
                "mimeType": "text/markdown",
                "buffer": b"# Second file\n\nWords.",
            },
        ],
    )

    expect(status(session, "chosen.txt")).to_have_text("Done")
    expect(status(session, "Second file")).to_have_text("Done")
    expect(page.locator("#uploads > .row")).to_have_count(0)


def test_an_unusable_file_says_so_in_a_row_of_its_own(visit):
    session = visit()
    session.allow_refusals()
    session.page.get_by_role("radio", name="Files").check()

    session.upload(("picture.pdf", b"GIF89a"))

    expect(session.upload_row("picture.pdf")).to_contain_text("This is not a PDF file.")


# -- never in the way ----------------------------------------------------------------------------


def test_updates_leave_what_is_typed_and_an_open_question_alone(documents, visit):
    documents.wait(documents.add(content=f"{SENTENCE} kept", title="Kept"))
    session = visit()
    page = session.page
    page.get_by_label("Addresses, one per line").fill("https://half.exam")
    page.get_by_label("Title or address").press_sequentially("ot")
    # Another member of the organisation adds it; this session's stream does not tell.
    documents.add(content=f"{SENTENCE} beside", title="Beside")

    expect(status(session, "Beside")).to_have_text("Done")

    page.keyboard.type("ter")
    expect(page.get_by_label("Title or address")).to_have_value("otter")
    expect(page.get_by_label("Addresses, one per line")).to_have_value("https://half.exam")
    session.button("Kept", "Delete").click()
    question = page.get_by_role("dialog").filter(has_text="This cannot be undone.")
    expect(question.get_by_role("button", name="Keep it")).to_be_focused()
    page.evaluate("htmx.trigger('#board', 'refresh')")
    with page.expect_response(lambda answer: session.is_update(answer.request)):
        page.evaluate("htmx.trigger('#board', 'refresh')")
    expect(question).to_be_visible()
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()


def test_a_document_is_deleted_after_a_question(documents, visit):
    documents.wait(documents.add(content=f"{SENTENCE} unwanted", title="Unwanted"))
    session = visit("/documents?q=unwanted")

    session.button("Unwanted", "Delete").click()
    session.page.get_by_role("dialog").get_by_role("button", name="Delete").click()

    expect(session.page.locator("#toast")).to_contain_text("Deleted")
    expect(session.row("Unwanted")).to_have_count(0)
    expect(session.page).to_have_url(re.compile(r"q=unwanted$"))


def test_a_dead_site_pauses_its_own_documents_only(documents, visit):
    dead, alive = documents.site(), documents.site()
    dead.default = (503, {}, b"")
    for number in range(6):
        documents.add(url=dead.url(f"/dead-{number}"))
    session = visit("/documents?q=dead-5")
    page = session.page

    expect(status(session, "dead-5")).to_have_text("Paused")
    expect(page.get_by_role("alert")).to_contain_text(f"127.0.0.1:{dead.port} does not answer.")
    other = documents.add(url=alive.html("/alive", "Alive", SENTENCE))
    assert documents.wait(other)["status"] == "done"


# -- every page, wide and narrow -----------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(documents):
    """Documents in several states, one of them hostile, with concepts; return one's id."""
    failed = documents.add(url=documents.site().url("/" + "long-address" * 30))
    documents.wait(failed)
    hostile = documents.add(
        content=f"{HOSTILE} {SENTENCE} {'unbroken' * 60}", title=HOSTILE, metadata={HOSTILE: "1"}
    )
    documents.wait(hostile)
    documents.until(lambda: documents.client.get("/v3/concepts").json()["concepts"])
    return hostile


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
def test_every_page_is_accessible_and_nothing_overflows(documents, visit, filled, size, scheme):
    session = visit(viewport=size, color_scheme=scheme)
    page = session.page
    concept = documents.client.get("/v3/concepts").json()["concepts"][0]["id"]
    paths = ("/documents", f"/documents/{filled}", "/search?q=cold+rivers", "/concepts",
             f"/concepts/{concept}")  # fmt: skip
    for path in paths:
        page.goto(documents.url + path)

        assert session.overflow() == 0, path
        assert session.axe_violations() == [], path
        assert page.evaluate("window.taken") is None, path


@pytest.mark.parametrize("kind", ["Text", "Files"])
def test_every_kind_of_intake_is_accessible(visit, kind):
    session = visit(viewport=PHONE)
    session.page.get_by_role("radio", name=kind).check()
    session.page.get_by_text("Labels to filter by").click()

    assert session.overflow() == 0
    assert session.axe_violations() == []


def test_a_search_is_made_by_keyboard_and_marks_what_it_found(documents, visit, filled):
    session = visit("/search")
    page = session.page
    expect(page.get_by_role("searchbox")).to_be_focused()

    page.keyboard.type("cold river")
    page.keyboard.press("Enter")

    expect(page.locator(".found")).to_contain_text("found by their words")
    expect(page.locator(".hit mark").first).to_have_text(re.compile("cold", re.IGNORECASE))
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    expect(page.locator("#pause")).to_be_hidden()


def test_pages_work_as_forms_without_scripts(documents, visit):
    page = visit(java_script_enabled=False).page
    page.get_by_role("radio", name="Text").check()
    page.get_by_label("Title optional").fill("Without scripts")
    page.get_by_label("Text", exact=True).last.fill(f"{SENTENCE} without scripts")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#toast")).to_contain_text("Added.")

    page.get_by_label("Title or address").fill("without")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Without scripts", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Without scripts")

    page.get_by_role("button", name="Delete Without scripts").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#toast")).to_contain_text("Deleted")
