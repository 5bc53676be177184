"""The repository's files, parsed once, for the architecture tests."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED_DIRECTORIES = {"__pycache__", "build", "dist", "htmlcov", "node_modules"}


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def shipped() -> dict[str, ast.Module]:
    """Map each module file of the package, as a path below `src/holdfast`, to its syntax tree."""
    package = ROOT / "src" / "holdfast"
    trees = {
        path.relative_to(package).as_posix(): ast.parse(path.read_text("utf-8"), str(path))
        for path in sorted(package.rglob("*.py"))
    }
    assert "errors.py" in trees, "the package was not found, so nothing would be checked"
    return trees


@pytest.fixture(scope="session")
def repository_files() -> list[Path]:
    """List the files that are committed or would be."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
        names = [ROOT / name for name in done.stdout.split("\0") if name]
        files = [path for path in names if path.is_file()]
    else:
        files = [path for path in ROOT.rglob("*") if path.is_file() and not _is_skipped(path)]
    assert ROOT / "pyproject.toml" in files, "the repository was not found"
    return files


def _is_skipped(path: Path) -> bool:
    directories = path.relative_to(ROOT).parts[:-1]
    return any(
        part in SKIPPED_DIRECTORIES
        or part.endswith(".egg-info")
        or (part.startswith(".") and part != ".ci")
        for part in directories
    )
