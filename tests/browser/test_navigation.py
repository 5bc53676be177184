"""The navigation that joins the pages of apps, wide and narrow, by mouse and by keyboard."""

import pytest
from playwright.sync_api import expect
from tests.browser.page_session import DESKTOP, PageSession
from tests.http.live_server import Serving
from tests.http.pages.papers_app import PapersApp
from tests.http.pages.sample_app import SampleApp

NARROW = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def two_apps(tmp_path_factory):
    """A server with an app on the front page and one with pages of its own."""
    folder = tmp_path_factory.mktemp("apps")
    others = [PapersApp(folder / "papers")]
    with Serving(folder, SampleApp(folder / "sample"), others=others) as serving:
        yield serving


@pytest.fixture(params=["light", "dark"])
def open_page(request, browser, two_apps):
    opened = []

    def build(size):
        opened.append(PageSession(browser, two_apps, viewport=size, color_scheme=request.param))
        opened[-1].page.goto(two_apps.url)
        return opened[-1]

    yield build
    for session in opened:
        session.context.close()
        assert session.complaints() == []


@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desktop", "360"])
def test_the_navigation_is_reached_by_keyboard_and_marks_where_one_is(open_page, size):
    session = open_page(size)
    page, links = session.page, session.page.get_by_role("navigation", name="Apps")
    expect(links.get_by_role("link", name="Pressings")).to_have_attribute("aria-current", "page")
    assert session.overflow() == 0
    assert session.axe_violations() == []

    for _ in range(4):  # the skip link, the brand, the front page
        page.keyboard.press("Tab")
    expect(links.get_by_role("link", name="Papers")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_have_text("Papers")
    expect(links.get_by_role("link", name="Papers")).to_have_attribute("aria-current", "page")
    expect(page.locator("#pause")).to_have_text("Live")
    assert session.overflow() == 0
    assert session.axe_violations() == []
    page.locator("#theme-button").click()
    expect(page).to_have_url(f"{session.service.url}/papers")
