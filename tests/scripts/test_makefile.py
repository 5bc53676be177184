"""What `make` installs and when: each step once, with one line of output."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    "Makefile",
    "pyproject.toml",
    "package.json",
    "package-lock.json",
    "scripts",
    "requirements",
)
PYTHON = """#!/bin/sh
case "$*" in
    *"-m venv"*) mkdir -p $4/bin; cp $0 $4/bin/python;;
    "-m uv --version") exec test -f has-uv;;
    *requirements/uv.txt) touch has-uv;;
esac
case "$*" in -c*|*--version) ;; *) echo "$*" >> calls;; esac
case "$*" in
    *requirements/speech.txt) test ! -f no-speech;;
    "-m uv pip"*) test ! -f uv-fails;;
esac
"""
CREATE = "-m venv --clear .venv"
UV = "requirements/uv.txt"
RUN = "requirements/run.txt"
DEV = "requirements/dev.txt"
OURS = "--editable . --editable ./apps/conversion"
ASSETS = "scripts/fetch_assets.py"
SPEECH = "requirements/speech.txt"
SERVE = "-m holdfast serve"


@pytest.fixture
def tree(tmp_path):
    """A tree with the Makefile, and a fake Python that records its arguments."""
    for name in (*COPIED, "apps/conversion/pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "src/holdfast/http/pages/vendor").mkdir(parents=True)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def make(tree, goal):
    """Run a goal, and return the lines that it printed and the ends of the calls it made."""
    (tree / "calls").write_text("")
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(
        ["make", "PYTHON=./python", goal],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines(), (tree / "calls").read_text().splitlines()


def ends_with(calls, *endings):
    return len(calls) == len(endings) and all(map(str.endswith, calls, endings))


def change(tree, name):
    """Make a file newer than everything that was made from it, and nothing newer than now."""
    for path in tree.rglob("*"):
        ago = 500 if path.name.startswith(".ready") else 1000
        os.utime(path, (path.stat().st_mtime - ago,) * 2)
    (tree / name).touch()


def test_a_first_start_prints_one_line_per_step(tree):
    said, calls = make(tree, "run")

    assert ends_with(calls, CREATE, UV, RUN, OURS, ASSETS, SPEECH, SERVE)
    assert said == [
        "creating .venv",
        f"installing {pinned(tree, RUN)} packages ({RUN})",
        "installing Holdfast and its apps",
        "fetching htmx",
        f"installing {pinned(tree, SPEECH)} packages ({SPEECH})",
        "starting Holdfast",
    ]


def pinned(tree, lock):
    return sum("==" in line for line in (tree / lock).read_text().splitlines())


def test_where_no_model_for_speech_fits_a_line_says_so_and_the_service_starts(tree):
    (tree / "no-speech").touch()

    said, calls = make(tree, "run")

    assert ends_with(calls, CREATE, UV, RUN, OURS, ASSETS, SPEECH, SPEECH, SERVE)
    assert said[-2:] == [
        "no model for speech fits this machine: speaking needs STT_BASE_URL",
        "starting Holdfast",
    ]


def test_what_uv_cannot_install_is_installed_by_pip(tree):
    (tree / "uv-fails").touch()

    said, calls = make(tree, "run")

    assert ends_with(calls, CREATE, UV, RUN, RUN, OURS, OURS, ASSETS, SPEECH, SERVE)
    by_uv, by_pip = calls[2:4]
    assert by_uv.startswith("-m uv pip install ")
    assert by_pip.startswith("-m pip install ")
    assert len(said) == 6


def test_a_second_start_only_starts(tree):
    make(tree, "run")

    assert make(tree, "run") == (["starting Holdfast"], [SERVE])


def test_the_gate_adds_its_packages_and_a_start_after_it_installs_nothing(tree):
    make(tree, "run")

    assert ends_with(make(tree, ".venv/.ready")[1], DEV)
    assert make(tree, "run")[1] == [SERVE]
    assert make(tree, ".venv/.ready")[1] == []


def test_the_gate_alone_installs_both_locks_into_one_environment(tree):
    assert ends_with(make(tree, ".venv/.ready")[1], CREATE, UV, RUN, OURS, DEV)


def test_a_changed_lock_is_installed_by_the_command_that_uses_it(tree):
    make(tree, ".venv/.ready")
    make(tree, "run")

    change(tree, DEV)
    assert make(tree, "run")[1] == [SERVE]
    assert ends_with(make(tree, ".venv/.ready")[1], DEV)


def test_after_a_change_of_both_locks_the_gate_still_installs_its_packages(tree):
    make(tree, ".venv/.ready")
    make(tree, "run")

    change(tree, RUN)
    assert ends_with(make(tree, "run")[1], RUN, OURS, SERVE)
    assert ends_with(make(tree, ".venv/.ready")[1], DEV)
