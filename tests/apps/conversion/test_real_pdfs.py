"""PDFs from the wild: their words are those that pdftotext sees, or they are refused."""

import os
import subprocess
import unicodedata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lxml import etree
from tests.apps.conversion import real_pdfs

LARGEST = 450_000
MOST = 130
BIDI_MARKS = dict.fromkeys([0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
# Where they differ, it is over taste: whether "t = 0" in a plot is one word or three, and whether
# a letter of a turned watermark stands alone. Far below is only a file that means something else
# by its characters than it shows (the card in Hindi), where both are wrong, each in its own way.
FAR_BELOW = 0.90


@pytest.fixture(scope="module")
def corpus():
    try:
        command = real_pdfs.find_pdftotext()
        paths = [path for path in real_pdfs.find_pdfs() if path.stat().st_size <= LARGEST]
    except (real_pdfs.Missing, OSError, subprocess.SubprocessError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"PDFs from the wild: {error}")
    return command, paths[:: max(1, len(paths) // MOST)]


def words_of(text: str) -> Counter[str]:
    plain = unicodedata.normalize("NFKC", text.translate(BIDI_MARKS)).replace("\u00ad", "-")
    return Counter(plain.split())


def agreement(ours: Counter[str], theirs: Counter[str]) -> float:
    """Return the share of words that both have, of all that either has (Dice)."""
    total = ours.total() + theirs.total()
    return 1.0 if total == 0 else 2 * (ours & theirs).total() / total


def test_at_least_50_pdfs_from_the_wild_agree_with_pdftotext(gateway, corpus):
    command, paths = corpus

    def look(path: Path) -> tuple[str, float | None]:
        answer = gateway.convert(path.read_bytes(), "text")
        if answer.status_code != 200:
            assert answer.status_code in {400, 413}, (path, answer.text)
            assert answer.json()["error"]["message"]
            return path.name, None
        root = etree.fromstring(answer.content, etree.XMLParser(huge_tree=True))
        seen = subprocess.run(
            [command, str(path), "-"], capture_output=True, check=False, timeout=60
        )
        if seen.returncode or b"language pack" in seen.stderr:
            return path.name, None  # it is pdftotext that cannot read this one
        ours = words_of("\n".join(root.itertext()))
        return path.name, agreement(ours, words_of(seen.stdout.decode("utf-8", "replace")))

    with ThreadPoolExecutor(2) as threads:
        results = dict(threads.map(look, paths))
    shares = {name: share for name, share in results.items() if share is not None}
    good = [name for name, share in shares.items() if share >= 0.98]
    told = sorted(shares.items(), key=lambda item: item[1])[:10]
    assert len(good) >= 50, told
    assert len(good) >= 0.9 * len(shares), told
    assert sum(shares.values()) / len(shares) >= 0.985, told
    assert sum(share < FAR_BELOW for share in shares.values()) <= 2, told
    assert len(results) - len(shares) <= 0.1 * len(results), results
