"""What a person does with the page, and sees on it."""

import json
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, FilePayload, Locator, Page, expect
from tests.apps.conversion.pdf_writer import Text, document
from tests.apps.conversion.service import Service
from tests.support.browser import AXE, need

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
# What the browser itself says of an answer that our contract asks for.
_REFUSAL = "Failed to load resource: the server responded with a status of"

# Every word that a status shows and that is read out, in order, however short it is there.
_RECORDER = """
window.said = [];
window.heard = [];
new MutationObserver(() => {
  const heard = document.getElementById("said")?.textContent;
  if (heard && window.heard.at(-1) !== heard) window.heard.push(heard);
  for (const node of document.querySelectorAll(".status")) {
    const name = node.closest(".row")?.querySelector("bdi")?.textContent;
    const line = `${name}: ${node.textContent}`;
    if (window.last?.[name] !== line) window.said.push(line);
    (window.last ??= {})[name] = line;
  }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def pdf(words: str, size: int = 0) -> bytes:
    """Return a PDF; with `size`, at least so many bytes long."""
    content = document([Text(72, 700, words)])
    # What follows the end of a PDF is a comment to its readers.
    return content + b"\n%" + b"x" * max(0, size - len(content))


class Seen:
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
        """Return what the console was told and should not have been."""
        return [
            each for each in self._complaints if not any(words in each for words in self._allowed)
        ]

    def allow_refusals(self) -> None:
        """Let the browser say that the server has refused something."""
        self._allowed += (_REFUSAL,)

    # -- doing ---------------------------------------------------------------------------------

    def upload(self, *files: str | tuple[str, bytes]) -> None:
        """Choose files, each a name or (name, content)."""
        self.page.set_input_files("#file", [self.file(each) for each in files])

    def upload_beside(self, name: str) -> None:
        """Upload a file in this session, and not by this page."""
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
        """Let uploads be slow; None lets them be quick again."""
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

    # -- seeing --------------------------------------------------------------------------------

    def row(self, name: str) -> Locator:
        """Return the row of the job that is called `name`."""
        return self.page.locator("#rows > .row", has_text=name)

    def upload_row(self, name: str) -> Locator:
        return self.page.locator("#uploads > .row", has_text=name)

    def expect_status(self, name: str, label: str) -> None:
        try:
            expect(self.row(name).locator(".status")).to_have_text(label)
        except AssertionError as error:
            # What the page does not show may be the service's doing.
            error.add_note(json.dumps(self.jobs(), indent=1))
            error.add_note("\n".join(self.service.told[-20:]))
            raise

    def button(self, name: str, label: str) -> Locator:
        return self.row(name).get_by_role("button", name=f"{label} {name}", exact=True)

    def jobs(self) -> list[dict[str, Any]]:
        """Return the session's jobs, as the API tells them."""
        found: list[dict[str, Any]]
        found = self.context.request.get(f"{self.service.url}/api/jobs").json()["jobs"]
        return found

    def said(self) -> list[str]:
        """Return all that statuses have shown, where they were recorded."""
        found: list[str] = self.page.evaluate("window.said")
        return found

    def heard(self) -> list[str]:
        """Return all that was read out, where it was recorded."""
        found: list[str] = self.page.evaluate("window.heard")
        return found

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        too_wide = "Math.max(0, document.documentElement.scrollWidth - innerWidth)"
        return int(self.page.evaluate(too_wide))

    def faults(self) -> list[str]:
        """Return what axe finds."""
        # Injected by the browser's own hand, so that the page's policy stays as it is.
        self.page.evaluate(need(AXE).read_text("utf-8") + "; undefined")
        result = self.page.evaluate(
            """() => axe.run(document, {
                 runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
               })"""
        )
        return [
            f"{fault['id']}: {json.dumps([node['html'] for node in fault['nodes']])}"
            f" {fault['nodes'][0]['failureSummary']}"
            for fault in result["violations"]
        ]
