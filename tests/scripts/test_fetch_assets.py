"""Assets from npm: pinned, fetched by one command, with clear errors."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import fetch_assets

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path):
    """A tree with the files that the script needs, and a folder for a fake npm."""
    for name in ("package.json", "package-lock.json", "scripts/fetch_assets.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "src/holdfast/http/pages").mkdir(parents=True)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/node.txt").write_text("")
    (tmp_path / "bin").mkdir()
    return tmp_path


def npm(tree, script):
    path = tree / "bin" / "npm"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def fetch(tree, *words):
    return subprocess.run(
        [sys.executable, tree / "scripts/fetch_assets.py", *words],
        env={**os.environ, "PATH": f"{tree / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_every_package_is_pinned_to_one_version_with_its_hash():
    asked = json.loads((ROOT / "package.json").read_text())
    lock = json.loads((ROOT / "package-lock.json").read_text())["packages"]

    for name, version in {**asked["dependencies"], **asked["devDependencies"]}.items():
        pinned = lock[f"node_modules/{name}"]
        assert pinned["version"] == version
        assert pinned["integrity"].startswith("sha512-")
        assert "resolved" not in pinned
    assert set(asked["dependencies"]) == {"htmx.org"}


def test_served_files_are_copied_to_an_ignored_folder(tree):
    made = " && ".join(
        f"mkdir -p $(dirname node_modules/{source}) && echo {name} > node_modules/{source}"
        for name, source in fetch_assets.FILES.items()
    )
    npm(tree, f'echo "$@" > said && {made}')

    done = fetch(tree)

    assert (done.returncode, done.stderr) == (0, "")
    vendor = tree / "src/holdfast/http/pages/vendor"
    found = {path.name: path.read_text().strip() for path in vendor.iterdir()}
    assert found == {name: name for name in fetch_assets.FILES}
    said = (tree / "said").read_text()
    assert said.startswith("ci --ignore-scripts")
    assert "--omit=dev" in said
    fetch(tree, "--tests")
    assert "--omit=dev" not in (tree / "said").read_text()
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "src/holdfast/http/pages/vendor/" in ignored
    assert "node_modules/" in ignored


def test_a_failure_is_two_lines_with_the_reason_and_the_consequence(tree):
    npm(tree, "echo 'npm warn old' >&2; echo 'npm error code EINTEGRITY' >&2; exit 1")

    done = fetch(tree)

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "fetch_assets: npm failed: npm error code EINTEGRITY; try again with: make assets",
        "fetch_assets: until then the pages do not update by themselves, and work as forms",
    ]
    assert not (tree / "src/holdfast/http/pages/vendor").exists()


def test_a_missing_npm_that_cannot_be_installed_is_reported(monkeypatch):
    monkeypatch.setattr(fetch_assets.shutil, "which", lambda *_, **__: None)
    commands = []
    monkeypatch.setattr(fetch_assets, "_run", lambda *command: commands.append(command))

    with pytest.raises(fetch_assets.CannotFetch, match=r"there is no npm; install Node.js"):
        fetch_assets.npm()

    assert commands[0][1:5] == ("-m", "pip", "install", "--quiet")
    assert "--require-hashes" in commands[0]
