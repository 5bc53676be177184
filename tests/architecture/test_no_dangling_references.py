"""Nothing in the repository refers to a document that is not in it."""

import re

import pytest

DOCUMENT = re.compile(r"\b[A-Z]{2,}\.md\b|\b[Ss]eeds? \d{3}\b|\b[Dd]ecision \d+\b|\b[Ii]ssue \d+\b")


def test_every_document_that_is_named_is_in_the_repository(root, repository_files):
    there = {path.name for path in repository_files}
    found = [
        f"{path.relative_to(root)}: {name}"
        for path in repository_files
        for name in documents(path.read_text("utf-8", errors="replace"))
        if name not in there
    ]
    assert found == []


# Split, so that this file does not contain the text that it searches for.
@pytest.mark.parametrize("text", ["see NOTES" + ".md", "seed" + " 002", "Decision" + " 7"])
def test_the_check_sees(text):
    assert documents(f"first line\n# {text}, below\n") != []


def documents(text: str) -> list[str]:
    return [match.group() for match in DOCUMENT.finditer(text)]
