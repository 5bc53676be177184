"""Chromium for tests: found, or Debian's package installed, and driven by Playwright.

It is searched in this order: the path in `HOLDFAST_TEST_CHROMIUM`, an installed browser, Debian's
package if `apt-get` and root rights are available. `python -m tests.support.machine` installs it
before the tests, so that no test times out meanwhile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.support.missing import do_without

ENVIRONMENT = "HOLDFAST_TEST_CHROMIUM"
MISSING = "no Chromium"
ROOT = Path(__file__).parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
HTMX = ROOT / "src" / "holdfast" / "http" / "pages" / "vendor" / "htmx.min.js"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PACKAGES = ("chromium", "fonts-dejavu-core")
_FLAGS = (
    "--no-sandbox",  # tests run as root, and open only our own pages
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-dev-shm-usage",
    # A hidden page must not have its timers throttled.
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
)
_found: list[str | None] = []  # once: an installation may take minutes


class BrowserMissing(RuntimeError):
    """No browser is available on this machine; the message says how to install one."""


def find_chromium() -> str:
    """Return the browser's path.

    Raises:
        BrowserMissing: there is none.
    """
    if not _found:
        _found.append(os.environ.get(ENVIRONMENT) or _installed() or _from_debian())
    if _found[0] is None:
        line = f"{MISSING}: set {ENVIRONMENT}, or install it (Debian: chromium)"
        raise BrowserMissing(line)
    return _found[0]


def _installed() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def _from_debian() -> str | None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *_PACKAGES]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A fresh machine's list of packages is empty or old.
    for command in (install, ["apt-get", "update"], install):
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=900)
        if found := _installed():
            return found
    return None


def need(path: Path) -> Path:
    """Return `path`, which `make test` fetches; or skip the test."""
    if not path.exists():
        do_without(f"{MISSING} tests without {path.relative_to(ROOT)}: make test fetches it")
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the browser while the block runs, or skip the test."""
    need(HTMX)
    try:
        path = find_chromium()
    except BrowserMissing as error:
        do_without(error)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=list(_FLAGS), timeout=60_000
        )
        yield browser
        browser.close()
