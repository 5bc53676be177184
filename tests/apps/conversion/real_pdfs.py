"""Real PDFs from Debian's documentation packages; none is stored in this repository.

They are unpacked from the packages into a cache folder, not installed. `HOLDFAST_TEST_PDFS` names
another folder of PDFs to use in their place.
"""

import gzip
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

PACKAGES = (
    "debian-refcard",  # one card in 36 languages, three columns on turned pages
    "xorg-docs",  # specifications made by FOP
    "r-cran-pdftools",  # unusual ones: Chinese, watermarks, a password
    "cups-filters",  # printed forms
    "graphviz-doc",  # manual pages made by groff and Ghostscript
    "parallel",  # a book and cheat sheets
    "smlnj-doc",  # papers made by TeX, old and new
    "chasen",  # Japanese, by TeX
    "bibtool",  # reference cards; bullets without a name
    "kissplice",  # letters as pictures, ligatures without a name
    "r-bioc-altcdfenvs",  # the same, from R
    "r-cran-stringdist",  # a paper full of formulas
    "goattracker",  # tables by OpenOffice
    "libsystemc-doc",  # slides by Word and Distiller
)
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-test-pdfs"
_TIMEOUT = 240


class Missing(RuntimeError):
    """The PDFs are not available on this machine; the message says what is missing."""


_COMMANDS = {"pdftotext": ("poppler-utils", "poppler-data"), "mutool": ("mupdf-tools",)}
"""The witnesses, and the packages that bring them: the first is the program."""


def find_witnesses() -> None:
    """Install both from Debian's packages if they are missing."""
    for command, packages in _COMMANDS.items():
        if shutil.which(command) is None and os.geteuid() == 0 and shutil.which("apt-get"):
            words = ["install", "--yes", "--no-install-recommends", *packages]
            if not _apt(words, None):
                _apt(["update"], None)
                _apt(words, None)
        if shutil.which(command) is None:
            raise Missing(f"no {command} (Debian: {packages[0]})")


def find_pdfs(packages: Sequence[str] = PACKAGES) -> list[Path]:
    """Return the PDFs of `packages`, sorted by package and name."""
    folder = os.environ.get("HOLDFAST_TEST_PDFS")
    if folder:
        return sorted(Path(folder).rglob("*.pdf"))
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Missing("no PDFs: set HOLDFAST_TEST_PDFS to a folder of them")
    wanting = [name for name in packages if not (_CACHE / name / ".whole").exists()]
    if wanting:
        _download(wanting)
    return sorted(path for name in packages for path in (_CACHE / name).glob("*.pdf"))


def _download(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not _apt(["download", *names], folder):
            _apt(["update"], folder)
            if not _apt(["download", *names], folder):
                raise Missing(f"apt-get cannot download {' '.join(names)}")
        for archive in Path(folder).glob("*.deb"):
            name = archive.name.partition("_")[0]
            inside = Path(folder) / f"{name}.unpacked"
            subprocess.run(
                ["dpkg-deb", "-x", str(archive), str(inside)],
                check=True,
                capture_output=True,
                timeout=_TIMEOUT,
            )
            _keep(inside, _CACHE / name)


def _keep(inside: Path, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    for path in inside.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        if path.name.endswith(".pdf.gz"):
            (kept / path.name[:-3]).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.name.endswith(".pdf"):
            (kept / path.name).write_bytes(path.read_bytes())
    (kept / ".whole").touch()


def _apt(words: list[str], folder: str | None) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        ["apt-get", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
        timeout=_TIMEOUT,
    )
    return done.returncode == 0
