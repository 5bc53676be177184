"""`holdfast backup` and `holdfast restore`."""

import asyncio

import pytest

from holdfast import Engine
from holdfast.cli import main


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """A function that runs a command on the data folder `name`, and returns code and output."""

    def call(name, *words):
        monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path / name))
        code = main(list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def data(tmp_path):
    """A data folder with a database and a file."""
    folder = tmp_path / "data"
    (folder / "files" / "uploads").mkdir(parents=True)
    (folder / "files" / "uploads" / "one").write_bytes(b"one")

    async def create():
        async with Engine(f"sqlite:///{folder / 'holdfast.db'}"):
            pass

    asyncio.run(create())
    return folder


def test_both_say_what_they_did(data, run, tmp_path):
    code, told, _ = run("data", "backup", str(tmp_path / "backup"))
    assert code == 0
    assert told.startswith(f"Backed up to {tmp_path / 'backup'}: the database and 1 file, ")

    code, told, _ = run("new", "restore", str(tmp_path / "backup"))

    assert code == 0
    first, second, third = told.splitlines()
    assert first.startswith(f"Restored {tmp_path / 'backup'} to {tmp_path / 'new'}: the database")
    assert first.endswith("all checksums match.")
    assert "written by Holdfast " in second
    assert "run again" in third
    assert (tmp_path / "new/files/uploads/one").read_bytes() == b"one"


def test_on_postgresql_the_files_are_copied_and_pg_dump_is_named(data, run, tmp_path):
    database = ("--database", "postgresql://ann:secret@127.0.0.1:1/none")
    code, told, _ = run("data", "backup", str(tmp_path / "backup"), *database)
    assert code == 0
    assert ": 1 file, " in told
    assert "pg_dump" in told
    assert "secret" not in told

    code, told, _ = run("new", "restore", str(tmp_path / "backup"), *database)

    assert code == 0
    assert "pg_restore" in told


def test_a_refusal_is_one_line_and_exit_code_1(data, run, tmp_path):
    run("data", "backup", str(tmp_path / "backup"))

    code, told, error = run("data", "restore", str(tmp_path / "backup"))

    assert (code, told) == (1, "")
    assert "nothing is overwritten" in error
    assert error.count("\n") == 1
