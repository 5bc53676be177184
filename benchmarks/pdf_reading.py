"""Manuals read by the gateway, compared with pdftotext and the PDF readers written in Python.

The gateway runs as it comes, with its default number of children, and is asked over HTTP. Like
`pdftotext -bbox-layout` it finds blocks, lines and words with their boxes; pdfminer.six finds
lines with their boxes and pypdf only text. The manuals come from Debian's packages. A quick reader
that misses words is of no use, so the words that only pdftotext finds are counted too.
"""

import html
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pdfminer.high_level import extract_pages
from pypdf import PdfReader
from tests.apps.conversion import real_pdfs, reference_readers

from benchmarks.measure import Goal, Row, best_seconds, ratios_to_ours, sized

OURS = "Holdfast's gateway"
PDFTOTEXT = "pdftotext -bbox-layout"
MISSING = "% of pdftotext's words missing"

MANUALS = {
    "bash-doc": "bashref.pdf",  # 196 pages
    "r-doc-pdf": "R-exts.pdf",  # 236 pages
    "gnuplot-doc": "gnuplot.pdf",  # 311 pages
}
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def gateway() -> Iterator[str]:
    """Run a gateway while the block runs, and give its address."""
    command = [sys.executable, "-m", "holdfast_conversion.gateway", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if "listening on " not in line:
                raise RuntimeError("the gateway did not start")
            yield line.split("listening on ")[1].split()[0]
        finally:
            process.terminate()


def ours(address: str, path: Path) -> bytes:
    """Convert a file to its layout."""
    request = urllib.request.Request(
        f"{address}/convert?mapping=layout",
        path.read_bytes(),
        {"content-type": "application/pdf"},
    )
    with _OPENER.open(request, timeout=120) as answer:
        xml: bytes = answer.read()
    return xml


def pdftotext(path: Path, output: int = subprocess.DEVNULL) -> "subprocess.CompletedProcess[bytes]":
    """Let poppler do the same."""
    command = ["pdftotext", "-bbox-layout", str(path), "-"]
    return subprocess.run(command, check=True, stdout=output)


def words(xml: bytes) -> reference_readers.Words:
    """Count the words in the XML of either."""
    found = re.findall("<word [^>]*>(.*?)</word>", xml.decode("utf-8", "replace"), re.DOTALL)
    return reference_readers.words_of(html.unescape(" ".join(found)))


def with_pdfminer(path: Path) -> None:
    """Find lines with their boxes."""
    for _ in extract_pages(path):
        pass


def with_pypdf(path: Path) -> None:
    """Extract text without boxes."""
    for page in PdfReader(path).pages:
        page.extract_text()


def compare(address: str, path: Path) -> Row:
    """Measure one manual."""
    quick: dict[str, Callable[[], object]] = {
        OURS: lambda: ours(address, path),
        PDFTOTEXT: lambda: pdftotext(path),
    }
    slow: dict[str, Callable[[], object]] = {
        "pypdf": lambda: with_pypdf(path),
        "pdfminer.six": lambda: with_pdfminer(path),
    }
    seconds = best_seconds(quick, calls=1, rounds=sized(3, 15))
    # These take so long that the noise of one round does not matter.
    seconds |= best_seconds(slow, calls=1, rounds=1)
    pages = len(PdfReader(path).pages)
    expected = words(pdftotext(path, subprocess.PIPE).stdout)
    missing = (expected - words(ours(address, path))).total() / expected.total()
    return Row(
        f"{path.name}, {pages} pages",
        ratios=ratios_to_ours(seconds, OURS),
        counts={"pages per second": round(pages / seconds[OURS]), MISSING: round(100 * missing, 2)},
        goals=[Goal(PDFTOTEXT, 0.5)],
        at_most={MISSING: 2.2},
    )


def rows() -> list[Row]:
    """Run every row of this file."""
    try:
        real_pdfs.find_witnesses()
        found = real_pdfs.find_pdfs(list(MANUALS))
    except (real_pdfs.Missing, OSError, subprocess.SubprocessError) as missing:
        print(f"left out, PDF reading: {missing}")
        return []
    with gateway() as address:
        return [compare(address, path) for path in found if path.name in MANUALS.values()]
