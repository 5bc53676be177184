"""The wheel: built from a clean clone, it holds all that an empty environment needs, or fails."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from scripts import build_hook, fetch_assets
from tests.support.missing import do_without

ROOT = Path(__file__).parents[2]
_CORE = ("apsw", "msgspec")
"""All that `pip install holdfast` brings beside Holdfast itself."""


def run(*command, cwd):
    """Run a command outside this environment; return its exit code and all that it printed."""
    own = {"PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "COVERAGE_PROCESS_CONFIG"}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of what a build reads, without the files that git ignores."""
    folder = tmp_path_factory.mktemp("clone")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "vendor")
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(clone, target):
    return run(sys.executable, "-m", "hatchling", "build", "-t", target, cwd=clone)


def test_the_hook_checks_what_is_fetched():
    assert set(build_hook.FILES) == set(fetch_assets.FILES)
    assert ROOT / build_hook.VENDOR == fetch_assets.VENDOR


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_a_build_without_htmx_fails_with_one_line_that_says_what_to_run(clone, target):
    code, said = build(clone, target)
    assert code == 1
    assert said.splitlines() == [
        "holdfast: src/holdfast/http/pages/vendor lacks htmx.min.js, hx-sse.min.js, LICENSE.htmx; "
        "run `make assets`, then build again"
    ]
    assert list(clone.glob("dist/*")) == []


@pytest.fixture(scope="module")
def complete(clone):
    """The clone after `make assets`, whose files are taken from this tree."""
    if not all((fetch_assets.VENDOR / name).is_file() for name in fetch_assets.FILES):
        do_without("htmx was not fetched: make assets")
    shutil.copytree(fetch_assets.VENDOR, clone / build_hook.VENDOR)
    yield clone
    shutil.rmtree(clone / build_hook.VENDOR)
    shutil.rmtree(clone / "dist", ignore_errors=True)


def first_screen():
    """Return the Python snippets of the README before its first heading."""
    text = (ROOT / "README.md").read_text("utf-8").partition("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def pinned(names):
    """Return the lines of the lock for `names`, with their hashes."""
    text = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    entries = re.findall(
        r"^(?:[a-z0-9-]+)==.*?(?=^[a-z0-9-]+==|\Z)", text, re.DOTALL | re.MULTILINE
    )
    return "".join(entry for entry in entries if entry.partition("==")[0] in names)


@pytest.fixture(scope="module")
def wheel(complete):
    code, said = build(complete, "wheel")
    assert code == 0, said
    (made,) = (complete / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder whose environment, `empty`, has the wheel and what it depends on, and no extra."""
    folder = tmp_path_factory.mktemp("installed")
    code, said = run(sys.executable, "-m", "venv", "--without-pip", "empty", cwd=folder)
    assert code == 0, said
    (folder / "lock.txt").write_text(pinned(_CORE), "utf-8")
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", str(folder / "empty/bin/python"))
    for what in (("--require-hashes", "-r", "lock.txt"), (str(wheel),)):
        code, said = run(*pip, "install", "--no-deps", *what, cwd=folder)
        assert code == 0, said
    code, said = run(*pip, "check", cwd=folder)
    assert code == 0, said
    return folder


def test_a_wheel_has_the_files_of_the_pages_and_of_pytest(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"holdfast/http/pages/vendor/{name}" for name in build_hook.FILES} <= names
    assert {"_holdfast_pytest.py", "holdfast/py.typed"} <= names


@pytest.mark.timeout(300)
def test_the_readme_runs_where_only_the_wheel_is_installed(installed):
    program = f"{first_screen()}\nimport holdfast\nprint(holdfast.__file__, holdfast.__version__)"
    (installed / "first_screen.py").write_text(program, "utf-8")
    code, said = run("empty/bin/python", "first_screen.py", cwd=installed)
    assert code == 0, said
    assert str(installed / "empty") in said.splitlines()[-1]


LETTERS = """
from holdfast import App, Engine, JobContext

app = App("letters")

@app.job()
async def write(ctx: JobContext, to: str) -> None:
    print(f"dear {to}")

if __name__ == "__main__":
    with Engine("sqlite:///work.db", apps=[app]).blocking() as engine:
        engine.enqueue(write, "Ann")
"""


@pytest.mark.timeout(300)
def test_worker_and_migrate_work_without_extras_and_the_other_commands_name_theirs(installed):
    (installed / "letters.py").write_text(LETTERS, "utf-8")
    database = ("--database", "sqlite:///work.db")
    holdfast = ("empty/bin/holdfast",)

    code, said = run(*holdfast, "migrate", *database, cwd=installed)
    assert (code, "up to date at version" in said) == (0, True), said
    code, said = run(*holdfast, "migrate", "--check", *database, cwd=installed)
    assert (code, said) == (0, "the schema is up to date\n")
    code, said = run("empty/bin/python", "letters.py", cwd=installed)
    assert code == 0, said
    module = ("empty/bin/python", "-m", "holdfast")
    code, said = run(*module, "worker", "letters:app", "--until-idle", *database, cwd=installed)
    assert (code, "dear Ann\n" in said) == (0, True), said

    code, said = run(*holdfast, "jobs", "list", *database, cwd=installed)
    assert (code, said) == (1, "holdfast: jobs needs more: pip install 'holdfast[cli]'\n")


def test_a_source_distribution_can_be_built_again(complete):
    code, said = build(complete, "sdist")
    assert code == 0, said
    (made,) = (complete / "dist").glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {str(build_hook.VENDOR / name) for name in build_hook.FILES} <= names
    assert "scripts/build_hook.py" in names
