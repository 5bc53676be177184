"""One browser session: user actions on the page, and what the page shows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    FilePayload,
    Locator,
    Page,
    Request,
    Route,
    expect,
)
from tests.apps.conversion.pdf_writer import Text, document
from tests.apps.conversion.service import Service
from tests.support.browser import AXE, need

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
# The browser logs this for every 4xx response, also for one that the API specifies.
_REFUSAL = "Failed to load resource: the server responded with a status of"

# Records, in order, every status text and every screen reader announcement, even a short-lived one.
_RECORDER = """
window.shown = [];
window.announced = [];
new MutationObserver(() => {
  const announced = document.getElementById("said")?.textContent;
  if (announced && window.announced.at(-1) !== announced) window.announced.push(announced);
  for (const node of document.querySelectorAll(".status")) {
    const name = node.closest(".row")?.querySelector("bdi")?.textContent;
    const line = `${name}: ${node.textContent}`;
    if (window.last?.[name] !== line) window.shown.push(line);
    (window.last ??= {})[name] = line;
  }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def pdf(words: str, size: int = 0) -> bytes:
    """Return a PDF; with `size`, at least so many bytes long."""
    content = document([Text(72, 700, words)])
    # PDF readers ignore a comment after the end of the file.
    return content + b"\n%" + b"x" * max(0, size - len(content))


class PageSession:
    """A page in a session of its own."""

    def __init__(
        self,
        browser: Browser,
        service: Service,
        *,
        recording: bool = False,
        allow: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        self.service = service
        options.setdefault("viewport", DESKTOP)
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page: Page = self.context.new_page()
        self._allowed = tuple(allow)
        self._complaints: list[str] = []
        if recording:
            self.page.add_init_script(_RECORDER)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._complaints.append(str(error)))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self._complaints.append(f"{message.text} ({message.location.get('url')})")

    def complaints(self) -> list[str]:
        """Return unexpected errors and warnings of the console."""
        return [
            each for each in self._complaints if not any(words in each for words in self._allowed)
        ]

    def allow_refusals(self) -> None:
        """Accept console errors about 4xx responses."""
        self._allowed += (_REFUSAL,)

    # -- actions -------------------------------------------------------------------------------

    def upload(self, *files: str | tuple[str, bytes]) -> None:
        """Choose files, each a name or (name, content)."""
        self.page.set_input_files("#file", [self.file(each) for each in files])

    def upload_beside(self, name: str) -> None:
        """Upload a file in this session through the API, not through the page."""
        answer = self.context.request.post(
            f"{self.service.url}/api/upload",
            multipart={"mapping": "text", "file": self.file(name)},
        )
        assert answer.status == 201, answer.text()

    @staticmethod
    def file(each: str | tuple[str, bytes]) -> FilePayload:
        name, content = each if isinstance(each, tuple) else (each, pdf(each))
        return {"name": name, "mimeType": "application/pdf", "buffer": content}

    def slow_uploads(self, bytes_per_second: int | None = None) -> None:
        """Limit the upload rate; None removes the limit."""
        self._cdp = self.context.new_cdp_session(self.page)
        self._cdp.send("Network.enable")
        self._cdp.send(
            "Network.emulateNetworkConditions",
            {
                "offline": False,
                "latency": 0,
                "downloadThroughput": -1,
                "uploadThroughput": bytes_per_second or -1,
            },
        )

    @staticmethod
    def is_update(request: Request) -> bool:
        """Return whether the page asks for its board by itself, not for the user."""
        return request.headers.get("hx-source", "").endswith("#board")

    @contextmanager
    def held_updates(self) -> Iterator[list[Route]]:
        """Hold back live updates until the block ends; yield those that are held."""
        held: list[Route] = []

        def hold(route: Route) -> None:
            if self.is_update(route.request):
                held.append(route)
            else:
                route.fallback()

        self.page.route("**/*", hold)
        try:
            yield held
        finally:
            # Before the handler goes: with the last one, Playwright itself continues what it held.
            for route in held:
                route.continue_()
            self.page.unroute("**/*", hold)

    # -- content ------------------------------------------------------------------------------

    def row(self, name: str) -> Locator:
        """Return the row of the job named `name`."""
        return self.page.locator("#rows > .row", has_text=name)

    def upload_row(self, name: str) -> Locator:
        return self.page.locator("#uploads > .row", has_text=name)

    def expect_status(self, name: str, label: str) -> None:
        try:
            expect(self.row(name).locator(".status")).to_have_text(label)
        except AssertionError as error:
            # The cause may be in the service: show its jobs and its output.
            error.add_note(json.dumps(self.jobs(), indent=1))
            error.add_note("\n".join(self.service.output[-20:]))
            raise

    def button(self, name: str, label: str) -> Locator:
        return self.row(name).get_by_role("button", name=f"{label} {name}", exact=True)

    def jobs(self) -> list[dict[str, Any]]:
        """Return the session's jobs from the API."""
        found: list[dict[str, Any]]
        found = self.context.request.get(f"{self.service.url}/api/jobs").json()["jobs"]
        return found

    def shown_statuses(self) -> list[str]:
        """Return every status text that the page has shown; needs `recording`."""
        found: list[str] = self.page.evaluate("window.shown")
        return found

    def announcements(self) -> list[str]:
        """Return every screen reader announcement; needs `recording`."""
        found: list[str] = self.page.evaluate("window.announced")
        return found

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        too_wide = "Math.max(0, document.documentElement.scrollWidth - innerWidth)"
        return int(self.page.evaluate(too_wide))

    def axe_violations(self) -> list[str]:
        """Return the accessibility violations that axe finds."""
        # Injected through the debugger, so the page's content security policy stays in force.
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(need(AXE).read_text("utf-8") + "; undefined")
        result = self.page.evaluate(
            """() => axe.run(document, {
                 resultTypes: ["violations"],
                 runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
               })"""
        )
        return [
            f"{fault['id']}: {json.dumps([node['html'] for node in fault['nodes']])}"
            f" {fault['nodes'][0]['failureSummary']}"
            for fault in result["violations"]
        ]
