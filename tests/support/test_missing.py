"""Missing requirements are reported at the end of the run, and are failures on a build server."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HIDDEN = """
from pathlib import Path

from tests.support import postgres_server as postgres
from tests.support import browser

postgres._INSTALLED = Path("/nowhere")
browser._NAMES = ()
browser.HTMX = Path(__file__)
"""
TESTS = """
import pytest
from tests.support.browser import chromium
from tests.support.postgres import postgres_server


@pytest.mark.parametrize("number", range(3))
def test_the_server(postgres_server, number): ...


def test_the_browser():
    with chromium():
        pass


def test_what_needs_nothing(): ...
"""


def run_without_anything(folder, **environment):
    """Run tests as `make test` does, without a server or browser, or a way to install them."""
    (folder / "hidden.py").write_text(HIDDEN)
    (folder / "test_all.py").write_text(TESTS)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(folder)])
    command = [
        "-m",
        "pytest",
        "-n",
        "2",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [sys.executable, *command, "-p", "hidden", "-p", "conftest", str(folder / "test_all.py")],
        env={"PYTHONPATH": path, "PATH": str(folder), "HOME": str(folder), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_summary_lists_what_was_not_run(tmp_path):
    done = run_without_anything(tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    *_, browser, server, closing = done.stdout.splitlines()
    assert browser.startswith("NOT RUN: 1 test: no Chromium: set HOLDFAST_TEST_CHROMIUM")
    assert server.startswith("NOT RUN: 3 tests: no PostgreSQL: set HOLDFAST_TEST_POSTGRES")
    assert "1 passed, 4 skipped" in closing


def test_a_build_server_fails_for_want_of_them(tmp_path):
    done = run_without_anything(tmp_path, CI="true")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "CI must not skip: no PostgreSQL" in done.stdout
    assert "CI must not skip: no Chromium" in done.stdout
    assert "NOT RUN" not in done.stdout
