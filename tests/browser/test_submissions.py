"""The pages of the grading app: live, wide and narrow."""

import pytest
from playwright.sync_api import expect
from tests.apps.grading.grading_server import GradingServer
from tests.apps.grading.samples import ESSAY
from tests.browser.page_session import DESKTOP, PHONE, PageSession


@pytest.fixture(scope="module")
def grading(tmp_path_factory):
    """A server of the app with a worker and a relay."""
    folder, url = tmp_path_factory.mktemp("grading"), "http://127.0.0.1:1/v1"
    with GradingServer(folder, stt_base_url=url) as server:
        yield server


@pytest.fixture
def visit(browser, grading):
    """Open the page in a fresh session; console errors fail the test."""
    opened = []

    def build(**options):
        opened.append(PageSession(browser, grading, **options))
        opened[-1].page.goto(grading.url + "/submissions")
        return opened[-1]

    yield build
    for session in opened:
        session.context.close()
        assert session.complaints() == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_text_is_handed_in_and_followed_live_to_its_grade(visit, size):
    session = visit(viewport=size)
    page = session.page
    expect(page.locator("#pause")).to_have_text("Live")
    page.get_by_label("Text", exact=True).fill(ESSAY)
    page.get_by_role("button", name="Hand in").click()
    expect(page.locator("#rows .status")).to_have_text("Graded")
    expect(page.get_by_label("Text", exact=True)).to_have_value("")
    assert (session.overflow(), session.axe_violations()) == (0, [])
    page.locator("#rows a.row-name").click()
    expect(page.get_by_role("heading", name="Grade", exact=True)).to_be_visible()
    expect(page.locator(".feedback")).to_contain_text("Graded offline")
    assert (session.overflow(), session.axe_violations()) == (0, [])


def test_the_form_shows_what_its_skill_needs_and_a_refusal_keeps_it(visit):
    session = visit()
    session.allow_refusals()
    page = session.page
    expect(page.get_by_label("Address of the recording")).to_be_hidden()
    page.get_by_role("radio", name="Speaking").check()
    expect(page.get_by_label("Text", exact=True)).to_be_hidden()
    page.get_by_label("Address of the recording").fill("http://10.0.0.1/talk.mp3")
    page.get_by_role("button", name="Hand in").click()
    expect(page.locator("#toast")).to_contain_text("not on the public internet")
    expect(page.get_by_label("Address of the recording")).to_have_value("http://10.0.0.1/talk.mp3")
