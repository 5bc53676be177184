"""Take the pictures of the tutorials: the real services, real faults, real Chromium.

make screenshots
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from playwright.sync_api import Browser, Page, expect  # noqa: E402
from tests.apps.conversion.service import Service  # noqa: E402
from tests.apps.ingestion.document_server import DocumentServer  # noqa: E402
from tests.browser.conftest import gateway_of  # noqa: E402
from tests.browser.page_session import PageSession, pdf  # noqa: E402
from tests.http.live_server import Serving  # noqa: E402
from tests.http.ops.busy_shop import Order, busy_app, fill  # noqa: E402
from tests.support.browser import chromium  # noqa: E402

FOLDER = ROOT / "docs" / "tutorial" / "images"
DASHBOARD = ROOT / "docs" / "how-to" / "images" / "dashboard.png"
MOST_BYTES = 150_000
DESK = {"width": 1080, "height": 760}
PHONE = {"width": 390, "height": 844}
NAMES = ("Annual report 2026.pdf", "Lease agreement.pdf", "Invoice 4711.pdf")
PAPERS = (
    (
        "/otters",
        "Otters",
        "Otters swim in cold rivers and lakes. They eat fish, and crack shells with stones.",
    ),
    (
        "/salmon",
        "The way of the salmon",
        "Salmon leave the sea and climb the river where they were born.",
    ),
)
LATER = ("Minutes of 12 May.pdf", "Floor plan.pdf")


def main() -> int:
    """Take all pictures; one that is too large for the repository is an error."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        _service(Path(folder)) as service,
        chromium() as browser,
    ):
        session = PageSession(browser, service, viewport=DESK, reduced_motion="reduce")
        session.page.goto(service.url)
        _story(session, service)
        state = session.context.storage_state()
        touch: dict[str, Any] = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
        phone = PageSession(browser, service, color_scheme="dark", storage_state=state, **touch)
        _on_a_phone(phone, service)
        _documents(browser, Path(folder))
        _dashboard(browser, Path(folder) / "dashboard")
    taken = [*FOLDER.glob("*.png"), DASHBOARD]
    large = [path.name for path in taken if path.stat().st_size > MOST_BYTES]
    for name in large:
        print(f"take_screenshots: {name} has more than {MOST_BYTES} bytes", file=sys.stderr)
    return 1 if large else 0


@contextmanager
def _service(folder: Path) -> Iterator[Service]:
    # The tutorial's settings, with a lower threshold: three files are enough for a picture.
    settings = {
        "RETRY_BASE_DELAY": "12000",
        "RETRY_MAX_DELAY": "60000",
        "CIRCUIT_THRESHOLD": "4",
        "CIRCUIT_FAILURE_RATE": "1",
        "WORKER_CONCURRENCY": "1",
        "LEASE_EXTEND_MS": "300",
        "LEASE_MS": "20000",
    }
    with Service(folder, "--chaos", **settings) as service:
        yield service


def _story(session: PageSession, service: Service) -> None:
    page, gateway = session.page, gateway_of(service)
    expect(page.locator("#pause")).to_have_text("Live")
    _shoot(page, "empty")
    session.upload("Letter.pdf")
    session.expect_status("Letter.pdf", "Ready")
    session.slow_uploads(600_000)
    session.upload(*[(name, pdf(name, 2_600_000)) for name in NAMES])
    expect(page.locator("#uploads .status").last).to_have_text(re.compile(r"Uploading [3-6]\d %"))
    _shoot(page, "uploading")
    service.client.put(f"{gateway}/chaos", json={"mode": "fail"})
    session.slow_uploads()
    for name in NAMES:
        session.expect_status(name, "Waiting to retry")
    expect(page.locator("#uploads > .row")).to_have_count(0)
    _shoot(page, "retry", part="#board")
    session.upload(LATER[0])
    expect(page.get_by_role("alert")).to_be_visible()
    session.upload(LATER[1])
    session.expect_status(LATER[1], "Paused")
    session.expect_status(NAMES[0], "Paused")
    _shoot(page, "held", part="#board")
    _on_the_way_back(session, service, gateway)


def _on_the_way_back(session: PageSession, service: Service, gateway: str) -> None:
    page = session.page
    service.client.delete(f"{gateway}/chaos")
    expect(page.locator("#rows .status", has_text="Ready")).to_have_count(6)
    expect(page.get_by_role("alert")).to_have_count(0)
    _shoot(page, "ready", part="#board")
    session.row(NAMES[0]).get_by_role("link", name=NAMES[0], exact=True).click()
    expect(page.locator(".step")).to_have_count(2)
    _shoot(page, "job")


def _on_a_phone(phone: PageSession, service: Service) -> None:
    gateway = gateway_of(service)
    service.client.put(f"{gateway}/chaos", json={"mode": "fail"})
    phone.page.goto(service.url)
    expect(phone.page.locator("#pause")).to_have_text("Live")
    phone.upload("Boarding pass.pdf")
    phone.expect_status("Boarding pass.pdf", "Waiting to retry")
    phone.page.locator("#board-title").evaluate("node => node.scrollIntoView()")
    phone.page.screenshot(path=FOLDER / "phone.png")
    service.client.delete(f"{gateway}/chaos")


def _dashboard(browser: Browser, folder: Path) -> None:
    folder.mkdir()
    serving_of: Any = Serving  # the tests' helpers have no types
    with serving_of(folder, busy_app()) as serving:
        for number in range(990):
            serving.run(serving.engine.enqueue("shop.report", Order(number)))
        serving.run(fill(serving.engine, dead=3))
        context = browser.new_context(reduced_motion="reduce")
        page = context.new_page()
        page.set_viewport_size({"width": 1080, "height": 760})
        page.goto(serving.url + serving.state.admin.new_link())
        expect(page.locator("h1")).to_have_text("Overview")
        page.screenshot(path=DASHBOARD, full_page=True)
        context.close()


def _documents(browser: Browser, folder: Path) -> None:
    with DocumentServer(folder) as server:
        session = PageSession(browser, server, viewport=DESK, reduced_motion="reduce")
        alive, dead = server.site(), server.site()
        dead.default = (503, {}, b"")
        for path, title, text in PAPERS:
            alive.html(path, title, text)
            server.wait(
                server.add(url=alive.url(path, "site.example"), metadata={"topic": "rivers"})
            )
        for number in range(6):
            server.add(url=dead.url(f"/page-{number + 1}.html", "site.example"))
        session.page.goto(f"{server.url}/documents?status=active")
        expect(session.page.locator("#rows .status", has_text="Paused")).to_have_count(6)
        server.wait(server.add(content="Herons wait at the water.", title="Herons"))
        session.page.goto(f"{server.url}/documents")
        expect(session.page.locator("#pause")).to_have_text("Live")
        session.page.set_viewport_size({"width": 1080, "height": 1100})
        session.page.screenshot(path=FOLDER / "documents.png")
        session.page.goto(f"{server.url}/search?q=cold+river")
        expect(session.page.locator(".hit")).to_have_count(2)
        _shoot(session.page, "search")


def _shoot(page: Page, name: str, part: str | None = None) -> None:
    path = FOLDER / f"{name}.png"
    if part is None:
        page.screenshot(path=path, full_page=True)
    else:
        # With a margin for shadows.
        box = page.locator(part).bounding_box()
        assert box is not None
        page.screenshot(
            path=path,
            full_page=True,
            clip={
                "x": box["x"] - 20,
                "y": box["y"] - 16,
                "width": box["width"] + 40,
                "height": box["height"] + 32,
            },
        )
    print(path)


if __name__ == "__main__":
    sys.exit(main())
