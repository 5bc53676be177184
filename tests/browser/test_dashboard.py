"""The operators' dashboard in a real browser: every page, and live updates that do not disturb."""

import pytest
from playwright.sync_api import expect
from tests.browser.page_session import DESKTOP, PHONE, PageSession
from tests.http.live_server import READER, Serving
from tests.http.ops.busy_shop import Order, busy_app, fill

from holdfast.fetch import FETCH_ERRORS, Fetcher
from holdfast.http import DiskRoom
from holdfast.webhooks import webhooks_app


class _Dashboard:
    """What `PageSession` needs of a service, over a server in a thread of this process."""

    def __init__(self, serving):
        self.serving = serving
        self.url = serving.url
        self.output = []


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ops")
    # Private addresses are refused, so the test message of the webhook fails without a packet.
    hooks = webhooks_app(Fetcher(), errors=FETCH_ERRORS)
    room = DiskRoom(folder, 2**20)
    with Serving(
        folder, busy_app(), others=[hooks], reader_token=READER, disk_room=room
    ) as serving:
        ids = serving.run(fill(serving.engine))
        ids["webhook"] = serving.run(add_webhook(serving.engine))
        yield serving, ids


async def add_webhook(engine):
    webhook = await engine.webhooks.add("http://127.0.0.1:9/hooks/orders", events=["failed"])
    await engine.webhooks.test(webhook.id)
    await engine.work(until_idle=True, queues=["holdfast-webhooks"])
    return webhook.id


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
        "/queues", "/owners?owner=ann", "/periodic", "/outbox", "/workers", "/webhooks",
        f"/webhooks/{ids['webhook']}", "/intake", "/audit", "/dead-letters/requeue", "/login",
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
    state = page.locator("tr", has_text="smtp").locator(".state .status")
    page.get_by_role("button", name="Reset smtp").click()
    expect(page.locator("#confirm-title")).to_have_text("Reset smtp?")
    serving.run(serving.engine.downstreams.hold("smtp"))
    expect(state).to_have_text("Held by hand")
    expect(page.locator("#confirm")).to_be_visible()
    page.locator("#confirm-yes").click()
    expect(page.locator("#toast")).to_contain_text("Its breaker is closed")
    expect(state).to_have_text("Closed")
    page.get_by_role("button", name="Hold smtp").click()
    expect(page.locator("#toast")).to_contain_text("held until it is released")
    expect(state).to_have_text("Held by hand")
    assert "?" not in page.url


def test_the_intake_is_paused_with_a_reason_that_an_update_leaves_alone(operator, busy):
    serving, _ = busy
    page = operator.page
    page.goto(f"{serving.url}/ops/intake")
    state = page.locator("#intake .status")
    expect(state).to_have_text("Open")
    page.get_by_label("Reason").fill("the disk is")
    serving.run(serving.engine.intake.pause("by another operator"))
    expect(state).to_have_text("Paused")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type(" replaced")
    page.get_by_role("button", name="Pause", exact=True).last.click()
    expect(page.locator("#intake strong")).to_have_text("the disk is replaced")
    page.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("Open")


def test_a_webhook_is_tested_and_removed_after_a_question(operator, busy):
    serving, _ = busy
    page = operator.page
    webhook = serving.run(serving.engine.webhooks.add("http://127.0.0.1:9/hooks/late"))
    page.goto(f"{serving.url}/ops/webhooks")
    page.get_by_role("link", name=webhook.url).click()
    page.get_by_role("button", name="Send a test").click()
    expect(page.locator("#toast")).to_contain_text("A test message is on its way")
    expect(page.locator("#rows .status")).to_have_text("Waits")
    serving.run(serving.engine.work(until_idle=True, queues=["holdfast-webhooks"]))
    expect(page.locator("#rows .status")).to_have_text("Failed")
    page.get_by_role("button", name="Remove").click()
    expect(page.locator("#confirm-title")).to_have_text("Remove this webhook?")
    page.locator("#confirm-yes").click()
    expect(page.get_by_role("link", name=webhook.url)).to_have_count(0)
    expect(page.locator("h1")).to_have_text("Webhooks")
