"""The documentation as a site, as `make docs` builds it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_is_built_without_a_warning_and_lists_every_page(tmp_path):
    strict = ("--quiet", "--fail-on-warning", "--keep-going", "--nitpicky")
    command = [sys.executable, "-m", "sphinx", *strict, str(ROOT / "docs"), str(tmp_path)]

    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert built.returncode == 0, built.stderr
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").glob("*/*.md")}
    index = (tmp_path / "index.html").read_text("utf-8")
    assert [str(page) for page in pages if f'href="{page.with_suffix(".html")}"' not in index] == []
