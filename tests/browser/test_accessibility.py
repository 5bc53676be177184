"""axe finds nothing, in light and dark, wide and narrow."""

import pytest
from playwright.sync_api import expect
from tests.browser.page_session import DESKTOP, PHONE, pdf
from tests.support.cookies import session_cookie


@pytest.fixture(scope="module")
def rows_in_every_state(service):
    """A session with rows in every state except waiting ones, which test_outages.py checks."""
    ids = {}
    client = service.browser()

    def upload(name, content=None):
        answer = service.upload(content or name.encode(), filename=name, client=client)
        ids[name] = answer.json()["job"]["id"]
        return ids[name]

    def chaos(**fault):
        service.client.put(f"{service.gateway}/chaos", json=fault)

    service.wait(upload("ready.pdf", pdf("ready")), client=client)
    service.wait(upload("failed.pdf", b"%PDF-1.4 broken"), client=client)
    upload("refused.txt")
    chaos(mode="hang")
    cancelled = upload("cancelled.pdf", pdf("cancelled"))
    client.post(f"/api/jobs/{cancelled}/cancel")
    service.wait(cancelled, client=client)
    running = upload("running.pdf", pdf("running"))
    service.wait(running, "processing", client=client)
    name, value = session_cookie(client)
    yield {"name": name, "value": value, "url": service.url}, ids
    client.post(f"/api/jobs/{running}/cancel")
    service.wait(running, client=client)
    service.client.delete(f"{service.gateway}/chaos")


LOOKS = [
    pytest.param({"color_scheme": scheme, "viewport": size}, id=f"{scheme}-{size['width']}")
    for scheme in ("light", "dark")
    for size in (DESKTOP, PHONE)
]


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(open_session, rows_in_every_state, look):
    cookie, ids = rows_in_every_state
    # Rows that fade in have other colours for a moment.
    session = open_session(reduced_motion="reduce", **look)
    page = session.page
    expect(page.locator("#pause")).to_have_text("Live")
    assert session.axe_violations() == []
    session.context.add_cookies([cookie])
    page.goto(session.service.url)
    expect(page.locator("#rows > .row")).to_have_count(5)
    shapes = page.locator("#rows > .row").evaluate_all("rows => rows.map(row => row.dataset.look)")
    assert set(shapes) == {"done", "failed", "cancelled", "running"}
    assert session.overflow() == 0
    assert session.axe_violations() == []
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    assert session.axe_violations() == []
    page.goto(f"{session.service.url}/jobs/{ids['failed.pdf']}")
    expect(page.locator(".step")).to_have_count(1)
    assert session.overflow() == 0
    assert session.axe_violations() == []


def test_a_page_that_refuses_is_accessible_too(open_session):
    session = open_session()
    session.allow_refusals()
    session.page.goto(f"{session.service.url}/jobs/nothing")

    expect(session.page.get_by_role("heading", level=1)).to_have_text("That is not possible.")
    assert session.axe_violations() == []
