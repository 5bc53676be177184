"""Generated parts of the docs are current, and links are valid."""

import re
from pathlib import Path

import pytest
from scripts import generate_docs

import holdfast

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_generated_part_is_current():
    assert generate_docs.stale(write=False) == [], "run: python scripts/generate_docs.py"


def test_every_public_name_is_in_the_reference():
    reference = "\n".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.md"))
    missing = [name for name in holdfast.__all__ if not re.search(rf"\b{name}\b", reference)]

    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [target for target in targets if not (page.parent / target).exists()] == []
