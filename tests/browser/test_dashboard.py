"""The operators' dashboard in a real browser: every page, and live updates that do not disturb."""

import pytest
from playwright.sync_api import expect
from tests.browser.page_session import DESKTOP, PHONE, PageSession
from tests.http.live_server import READER, Serving
from tests.http.ops.busy_shop import Order, busy_app, fill


class _Dashboard:
    """What `PageSession` needs of a service, over a server in a thread of this process."""

    def __init__(self, serving):
        self.serving = serving
        self.url = serving.url
        self.output = []


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("ops"), busy_app(), reader_token=READER) as serving:
        yield serving, serving.run(fill(serving.engine))


@pytest.fixture
def operator(browser, busy):
    """A page that the admin link has opened; console errors fail the test."""
    serving, _ = busy
    session = PageSession(browser, _Dashboard(serving), reduced_motion="reduce")
    session.page.goto(serving.url + serving.state.admin.new_link())
    yield session
    session.context.close()
    assert session.complaints() == []


def test_every_page_fits_and_axe_finds_nothing(operator, busy):
    serving, ids = busy
    page = operator.page
    expect(page.locator("h1")).to_have_text("Overview")
    paths = (
        "/", "/jobs?status=failed", f"/jobs/{ids['sync_stock']}", "/dead-letters", "/downstreams",
        "/queues", "/owners?owner=ann", "/periodic", "/outbox", "/workers", "/audit",
        "/dead-letters/requeue", "/login",
    )  # fmt: skip
    for path in paths:
        page.goto(f"{serving.url}/ops{path}")
        # Colours do not depend on the width, so two of the four looks are enough for axe.
        for size, scheme in ((DESKTOP, "light"), (PHONE, "dark")):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            assert operator.overflow() == 0, (path, size)
            assert operator.axe_violations() == [], (path, size, scheme)


def test_a_live_update_leaves_selection_dialog_and_typed_text_alone(operator, busy):
    serving, _ = busy
    page = operator.page
    page.goto(f"{serving.url}/ops/dead-letters")
    expect(page.locator("#pause")).to_have_text("Live")
    rows = page.locator("#rows > .row")
    before = rows.count()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#picked")).to_have_text("1 selected")
    selected = page.locator(".pick:checked").get_attribute("value")
    page.keyboard.press("/")
    page.keyboard.type("half a wo")

    serving.run(serving.engine.enqueue("shop.charge", Order(99)))
    serving.work()

    expect(rows).to_have_count(before + 1)
    expect(page.locator("#finder-text")).to_be_focused()
    expect(page.locator("#finder-text")).to_have_value("half a wo")
    expect(page.locator(".pick:checked")).to_have_value(selected)
    page.locator("#finder-text").blur()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    serving.run(serving.engine.enqueue("shop.charge", Order(100)))
    serving.work()
    expect(rows).to_have_count(before + 2)
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()

    page.keyboard.press("r")
    expect(page.locator("#pause")).to_have_text("Paused")
    serving.run(serving.engine.enqueue("shop.charge", Order(101)))
    serving.work()
    expect(page.locator("#pause")).to_contain_text("change")
    assert rows.count() == before + 2
    page.keyboard.press("r")
    expect(rows).to_have_count(before + 3)


def test_what_destroys_is_asked_about_in_a_dialog_that_an_update_leaves_open(operator, busy):
    serving, _ = busy
    page = operator.page
    page.goto(f"{serving.url}/ops/downstreams")
    expect(page.locator("#pause")).to_have_text("Live")
    alert = page.get_by_role("alert")
    expect(alert).to_have_text("smtp is open.")
    page.get_by_role("button", name="Reset smtp").click()
    expect(page.locator("#confirm-title")).to_have_text("Reset smtp?")
    serving.run(serving.engine.downstreams.hold("smtp"))
    expect(page.locator(".state .status")).to_have_text("Held by hand")
    expect(page.locator("#confirm")).to_be_visible()
    page.locator("#confirm-yes").click()
    expect(page.locator("#toast")).to_contain_text("Its breaker is closed")
    expect(page.locator(".state .status")).to_have_text("Closed")
    page.get_by_role("button", name="Hold smtp").click()
    expect(page.locator("#toast")).to_contain_text("held until it is released")
    expect(page.locator(".state .status")).to_have_text("Held by hand")
    assert "?" not in page.url
