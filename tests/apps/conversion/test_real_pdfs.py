"""Real PDFs: their words agree with those of pdftotext, or they are refused."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from lxml import etree
from tests.apps.conversion import real_pdfs
from tests.apps.conversion.reference_readers import (
    against_pdftotext,
    agreement,
    mutool,
    pdftotext,
    words_of,
)
from tests.support.missing import do_without

ENOUGH = 0.98
LARGEST = 460_000
LONG = frozenset(
    {"bibtool.pdf", "icccm.pdf", "cm_manual.pdf", "parallel.pdf", "parallel_alternatives.pdf"}
)
"""Long manuals: a quarter of the time, and shorter files of their packages are made alike."""

SECOND_WITNESS = {
    "mlrisc-IR.pdf": "it parts words: 'Oth er fa c ets' (67 words in all)",
    "mltexdoc.pdf": "it parts the letters of TeX's logo, which are set lower: 'MLTE X'",
    "RJournal_6_111-122-2014.pdf": "it parts small capitals, 'C ONTRIBUTED', and all formulas",
    "leftyguide.pdf": "it prints a space for the ligature fi: 'speci ed'",
    "SLIDES.pdf": "it joins labels of a drawing, 'MMain', and prints codes of a font of signs",
    "refcard-hi-a4.pdf": "the file gives signs of Hindi the meaning of others; nobody reads it",
}
"""Files on which a second witness, MuPDF, is heard, and why.

There our words must be MuPDF's to 98 %, or agree with pdftotext's at least as well as MuPDF's do.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    refusal: str | None = None
    share: float | None = None
    """Of the words that pdftotext sees."""
    excused: bool = False


@pytest.fixture(scope="module")
def corpus():
    try:
        real_pdfs.find_witnesses()
        found = [path for path in real_pdfs.find_pdfs() if path.name not in LONG]
        return [path for path in found if path.stat().st_size <= LARGEST]
    except (real_pdfs.Missing, OSError, subprocess.SubprocessError) as error:
        do_without(f"no PDFs from the wild: {error}")


def look(gateway, path: Path) -> Finding:
    answer = gateway.convert(path.read_bytes(), "text")
    if answer.status_code != 200:
        assert answer.status_code in {400, 413}, (path, answer.text)
        return Finding(path.name, refusal=answer.json()["error"]["message"])
    root = etree.fromstring(answer.content, etree.XMLParser(huge_tree=True))
    ours = words_of("\n".join(root.itertext()))
    seen = pdftotext(path)
    if seen is None:
        return Finding(path.name)
    share = against_pdftotext(ours, seen)
    if share >= ENOUGH or path.name not in SECOND_WITNESS:
        return Finding(path.name, share=share)
    theirs = words_of(mutool(path))
    excused = agreement(ours, theirs) >= ENOUGH or share >= against_pdftotext(theirs, seen)
    return Finding(path.name, share=share, excused=excused)


@pytest.mark.timeout(600)  # the packages may have to be downloaded first
def test_every_pdf_from_the_wild_agrees_with_pdftotext_or_is_refused_with_a_reason(gateway, corpus):
    with ThreadPoolExecutor(2) as threads:
        findings = list(threads.map(lambda path: look(gateway, path), corpus))

    refused = {one.name: one.refusal for one in findings if one.refusal is not None}
    compared = [one for one in findings if one.share is not None]
    assert all(refused.values()), refused
    assert len(refused) <= 0.05 * len(findings), refused
    assert len(compared) >= 0.9 * (len(findings) - len(refused))
    assert len([one for one in compared if one.share >= ENOUGH]) >= 50
    below = [one for one in compared if one.share < ENOUGH and not one.excused]
    assert below == []
