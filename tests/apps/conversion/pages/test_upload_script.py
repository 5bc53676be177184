"""The page's script in a real browser, when the server fails."""

import errno

import pytest
from playwright.sync_api import expect
from tests.http.live_server import Serving
from tests.support.browser import chromium

from holdfast_conversion.app import Conversion
from holdfast_conversion.service_settings import ConversionSettings

LONG = 40_000
"""Milliseconds that a machine may take for what happens at once on a quick one."""


# Module scope: while Playwright runs, no other test of its thread can have an event loop.
@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def serving(tmp_path):
    settings = ConversionSettings(files=tmp_path / "files", gateway_url="http://127.0.0.1:9")
    # One write, and another in a thousand seconds.
    options = {"writes_at_once": 1, "writes_per_second": 0.001}
    with Serving(tmp_path, served=Conversion(settings), **options) as serving:
        yield serving


@pytest.fixture
def page(browser, serving):
    """The front page; an uncaught JavaScript error fails the test."""
    page, uncaught = browser.new_page(), []
    page.on("pageerror", lambda error: uncaught.append(str(error)))
    page.goto(serving.url)
    yield page
    page.close()
    assert uncaught == []


def ask_for_a_sample(page):
    page.get_by_role("button", name="Convert a sample").click()


def expect_toast(page, words):
    expect(page.locator("#toast")).to_contain_text(words, timeout=LONG)


def test_a_sample_that_does_not_reach_the_server_is_reported(page):
    page.route("**/sample", lambda route: route.abort("connectionrefused"))

    ask_for_a_sample(page)

    expect_toast(page, "The connection was lost")


def test_a_refused_sample_shows_the_reason(page, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "broken", "/a/secret/path")

    monkeypatch.setattr("holdfast.files.artifacts.Draft.write", broken)

    ask_for_a_sample(page)

    expect_toast(page, "Temporary storage issue.")


def test_a_sample_beyond_the_limit_shows_a_message_and_the_first_has_its_row(page):
    ask_for_a_sample(page)
    expect(page.locator("#rows > li")).to_have_count(1, timeout=LONG)
    expect(page.locator("#rows")).to_contain_text("sample-")

    ask_for_a_sample(page)

    expect_toast(page, "too many requests")
    expect(page.locator("#rows > li")).to_have_count(1)


def test_an_unreadable_answer_has_a_readable_message(page):
    page.route("**/sample", lambda route: route.fulfill(status=502, body="<html>"))

    ask_for_a_sample(page)

    expect_toast(page, "The server could not take it in.")
