"""axe finds nothing, in light and dark, wide and narrow."""

import pytest
from playwright.sync_api import expect
from tests.browser.seeing import DESKTOP, PHONE, pdf


@pytest.fixture(scope="module")
def rows_in_every_state(service):
    """A session that has them, but for those that wait: test_trouble.py looks at these."""
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
    cookie = client.cookies["holdfast_session"]
    yield {"name": "holdfast_session", "value": cookie, "url": service.url}, ids
    client.post(f"/api/jobs/{running}/cancel")
    service.wait(running, client=client)
    service.client.delete(f"{service.gateway}/chaos")


LOOKS = [
    pytest.param({"color_scheme": scheme, "viewport": size}, id=f"{scheme}-{size['width']}")
    for scheme in ("light", "dark")
    for size in (DESKTOP, PHONE)
]


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(see, rows_in_every_state, look):
    cookie, ids = rows_in_every_state
    # Fading rows have other colours for a moment.
    seen = see(reduced_motion="reduce", **look)
    page = seen.page
    expect(page.locator("#pause")).to_have_text("Live")
    assert seen.faults() == []
    seen.context.add_cookies([cookie])
    page.goto(seen.service.url)
    expect(page.locator("#rows > .row")).to_have_count(5)
    shapes = page.locator("#rows > .row").evaluate_all("rows => rows.map(row => row.dataset.look)")
    assert set(shapes) == {"done", "failed", "cancelled", "running"}
    assert seen.overflow() == 0
    assert seen.faults() == []
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    assert seen.faults() == []
    page.goto(f"{seen.service.url}/jobs/{ids['failed.pdf']}")
    expect(page.locator(".step")).to_have_count(1)
    assert seen.overflow() == 0
    assert seen.faults() == []


def test_a_page_that_refuses_is_accessible_too(see):
    seen = see()
    seen.allow_refusals()
    seen.page.goto(f"{seen.service.url}/jobs/nothing")

    expect(seen.page.get_by_role("heading", level=1)).to_have_text("That is not possible.")
    assert seen.faults() == []
