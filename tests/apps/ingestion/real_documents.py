"""Real documentation from Debian's packages: HTML, PDF and text; none is stored in this repository.

Packages are unpacked into a cache folder, not installed. `HOLDFAST_TEST_DOCUMENTS` names another
folder of documents to use in their place.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.apps.conversion.real_pdfs import Missing, find_pdfs

PACKAGE = "git-doc"  # manual pages as HTML, release notes as text
LARGEST = 40 * 1024
"""Bytes: of the small ones there are more than enough, and they are quick."""
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_FOLDER = _CACHE / "holdfast-test-documents"
_TIMEOUT = 240


def find_documents(html: int, text: int, pdf: int) -> list[Path]:
    """Return so many documents of each kind.

    Raises:
        Missing: they cannot be had on this machine.
    """
    folder = Path(os.environ.get("HOLDFAST_TEST_DOCUMENTS") or _FOLDER / PACKAGE)
    if not folder.exists():
        _download(folder)
    pdfs = [path for path in find_pdfs() if path.stat().st_size < LARGEST]
    return [*_some(folder, "html", html), *_some(folder, "txt", text), *pdfs[:pdf]]


def _some(folder: Path, ending: str, count: int) -> list[Path]:
    found = sorted(
        path
        for path in folder.rglob(f"*.{ending}")
        if path.is_file() and not path.is_symlink() and 2000 < path.stat().st_size < LARGEST
    )
    return found[:count]


def _download(folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Missing("no documents: set HOLDFAST_TEST_DOCUMENTS to a folder of them")
    with tempfile.TemporaryDirectory() as place:
        if not _run(["apt-get", "download", PACKAGE], place):
            _run(["apt-get", "update"], place)
            if not _run(["apt-get", "download", PACKAGE], place):
                raise Missing(f"apt-get cannot download {PACKAGE}")
        (archive,) = Path(place).glob("*.deb")
        unpacked = Path(place) / "unpacked"
        if not _run(["dpkg-deb", "-x", str(archive), str(unpacked)], place):
            raise Missing(f"dpkg-deb cannot unpack {PACKAGE}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(unpacked / "usr" / "share" / "doc", folder)


def _run(words: list[str], place: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        words, cwd=place, env=environment, capture_output=True, check=False, timeout=_TIMEOUT
    )
    return done.returncode == 0
