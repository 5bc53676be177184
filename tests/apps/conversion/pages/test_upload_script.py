"""The page's own script in a real browser, where the server cannot do what it is asked for."""

import errno

import pytest
from playwright.sync_api import expect
from tests.http.serving import Serving
from tests.support.browser import chromium

from holdfast_conversion.app import Conversion
from holdfast_conversion.service_settings import ConversionSettings

LONG = 40_000
"""Milliseconds that a machine may take for what happens at once on a quick one."""


# It ends with this file: while Playwright runs, no other test can have an event loop.
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
    """The front page; an error that no script has caught fails the test."""
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


def test_a_sample_that_never_reaches_the_server_is_said_so(page):
    page.route("**/sample", lambda route: route.abort("connectionrefused"))

    ask_for_a_sample(page)

    expect_toast(page, "The connection was lost")


def test_a_sample_that_is_refused_says_why(page, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "broken", "/a/secret/path")

    monkeypatch.setattr("holdfast.files.artifacts.Draft.write", broken)

    ask_for_a_sample(page)

    expect_toast(page, "The file could not be read or stored.")


def test_a_sample_too_many_says_so_and_the_first_has_its_row(page):
    ask_for_a_sample(page)
    expect(page.locator("#rows > li")).to_have_count(1, timeout=LONG)
    expect(page.locator("#rows")).to_contain_text("sample-")

    ask_for_a_sample(page)

    expect_toast(page, "too many requests")
    expect(page.locator("#rows > li")).to_have_count(1)


def test_an_answer_that_nobody_can_read_is_said_in_our_own_words(page):
    page.route("**/sample", lambda route: route.fulfill(status=502, body="<html>"))

    ask_for_a_sample(page)

    expect_toast(page, "The server could not take it in.")
