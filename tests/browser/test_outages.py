"""Failures and outages of the gateway and of the server, shown live on the page."""

import re
import socket

import pytest
from playwright.sync_api import expect


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def service(serve):
    return serve(
        PORT=str(free_port()),
        RETRY_BASE_DELAY="10000",
        RETRY_MAX_DELAY="10000",
        CIRCUIT_THRESHOLD="3",
        CIRCUIT_FAILURE_RATE="1",
        CIRCUIT_TIMEOUT="60000",
    )


def seconds_left(row):
    return int(re.search(r"next retry in (\d+) s", row.inner_text())[1])


def test_a_retry_has_a_countdown_and_can_be_started_now(open_session, chaos):
    session = open_session(color_scheme="dark")
    chaos("fail", requests=1)
    session.upload("wobbly.pdf")
    row = session.row("wobbly.pdf")

    session.expect_status("wobbly.pdf", "Waiting to retry")
    expect(row).to_contain_text(re.compile(r"Attempt 1 of 3 · next retry in \d+ s"))
    expect(row).to_contain_text("Converter service is having an issue. We’ll retry shortly.")
    first = seconds_left(row)
    expect(row.locator(".countdown")).not_to_have_text(f"{first} s")
    assert seconds_left(row) < first
    assert session.axe_violations() == []
    session.button("wobbly.pdf", "Retry now").click()

    session.expect_status("wobbly.pdf", "Ready")
    row.get_by_role("link", name="wobbly.pdf", exact=True).click()
    steps = session.page.locator(".step")
    expect(steps).to_have_count(3)
    expect(steps.nth(0)).to_contain_text("Attempt 1 · Failed")
    expect(steps.nth(1)).to_contain_text("Retry now requested")
    expect(steps.nth(2)).to_contain_text("Attempt 2 · Succeeded")


def test_an_outage_shows_a_banner_and_paused_rows_that_continue_automatically(open_session, chaos):
    session = open_session(recording=True)
    page = session.page
    page.evaluate("window.here = true")
    chaos("fail")
    session.upload(*[f"early {number}.pdf" for number in range(3)])
    alert = page.get_by_role("alert")
    expect(alert).to_have_text("Gateway busy, paused. Will retry automatically.")

    session.upload("late.pdf")

    late = session.row("late.pdf")
    session.expect_status("late.pdf", "Paused")
    expect(late).not_to_contain_text("Attempt")
    expect(late.locator(".mark-held")).to_be_visible()
    # The first ones become due meanwhile; no event is sent when they become held.
    expect(page.locator("#rows .status", has_text="Paused")).to_have_count(4)
    expect(page.locator("#banners")).to_contain_text("4 of your conversions wait.")
    assert session.axe_violations() == []
    chaos()

    expect(page.locator("#rows .status", has_text="Ready")).to_have_count(4)
    expect(alert).to_have_count(0)
    assert page.evaluate("window.here") is True
    assert not [line for line in session.shown_statuses() if "Failed" in line]
    assert {job["status"] for job in session.jobs()} == {"complete"}


def test_the_page_outlives_the_server(open_session, service):
    session = open_session(
        allow=(
            "net::ERR_",
            "htmx:",
            "Failed to load resource",
        )
    )
    page = session.page
    expect(page.locator("#pause")).to_have_text("Live")
    page.evaluate("window.here = true")
    service.stop()
    expect(page.locator("#pause")).to_have_text("Checking")

    service.start()

    expect(page.locator("#pause")).to_have_text("Live")
    session.upload("afterwards.pdf")
    session.expect_status("afterwards.pdf", "Ready")
    assert page.evaluate("window.here") is True
