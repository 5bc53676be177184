"""Every acceptance test that docs/explanation/proof.md names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_page_names_exists():
    proof = (ROOT / "docs" / "explanation" / "proof.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", proof))
    there = {
        name
        for path in (ROOT / "tests" / "acceptance").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }

    assert len(named) > 20
    assert named - there == set()
