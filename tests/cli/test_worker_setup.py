"""How the commands that run jobs work, from the settings."""

import gc
import string
from pathlib import Path

import pytest

from holdfast.cli.worker_setup import (
    database_address,
    prepare_data_dir,
    rare_collections,
    worker_options,
)
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.settings import BadSetting, Environment, Settings


def options(concurrency=None, **settings):
    return worker_options(Settings.load(Environment(settings)), concurrency)


def test_leases_and_concurrency_are_the_settings():
    found = options(LEASE_MS="8000", LEASE_EXTEND_MS="2000", WORKER_CONCURRENCY="3")

    assert (found.lease_seconds, found.extend_every, found.concurrency) == (8, 2, 3)
    assert options(7, WORKER_CONCURRENCY="3").concurrency == 7


@pytest.mark.parametrize("lease, lead, rescue", [("1000", 1, 0.5), ("8000", 8, 1)])
def test_a_dead_leader_is_waited_for_no_longer_than_a_dead_workers_jobs(lease, lead, rescue):
    chores = options(LEASE_MS=lease).maintenance

    assert (chores.lead_seconds, chores.rescue_every) == (lead, rescue)


def test_long_leases_leave_the_chores_as_they_are():
    assert options().maintenance == MaintenanceOptions()


def test_the_default_database_has_its_folder_made_and_another_has_not(tmp_path):
    settings = Settings(data_dir=tmp_path / "a b" / "c")

    assert database_address(settings, "sqlite:///other.db") == "sqlite:///other.db"
    assert not settings.data_dir.exists()
    assert database_address(settings).endswith("/a%20b/c/holdfast.db")
    assert settings.data_dir.is_dir()


def test_a_file_cannot_be_the_data_directory(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("a file")
    with pytest.raises(BadSetting, match=r"HOLDFAST_DATA_DIR .*plain' .*: it is not a folder"):
        prepare_data_dir(plain)
    with pytest.raises(BadSetting, match=r"HOLDFAST_DATA_DIR .*: Not a directory"):
        prepare_data_dir(plain / "below")
    with pytest.raises(BadSetting, match=r"HOLDFAST_DATA_DIR '/proc/x' .*: No such file or dir"):
        prepare_data_dir(Path("/proc/x"))
    (tmp_path / "files").symlink_to("nowhere")
    with pytest.raises(BadSetting, match=r"HOLDFAST_DATA_DIR .*: .*files is not a folder"):
        prepare_data_dir(tmp_path)


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    prepare_data_dir(tmp_path)
    # Root may write everywhere, so permissions alone would not fail.
    monkeypatch.setattr("os.access", lambda path, mode: False)

    with pytest.raises(BadSetting, match="cannot be used: it cannot be written to"):
        prepare_data_dir(tmp_path)


def test_collections_are_rare_only_for_as_long_as_they_are_to_be():
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before


@pytest.mark.parametrize("said", [(0, 0, 0), (50_000, 5, 5)], ids=str)
def test_collections_that_are_rarer_already_stay_so(said):
    before = gc.get_threshold()
    gc.set_threshold(*said)
    try:
        with rare_collections():
            assert gc.get_threshold() == said
        assert gc.get_threshold() == said
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize(
    "text, choice", [("on", True), ("off", False), ("string:capwords", string.capwords)]
)
def test_tracebacks_are_kept_dropped_or_redacted(text, choice):
    assert options(HOLDFAST_TRACEBACKS=text).tracebacks is choice


@pytest.mark.parametrize(
    "text, line",
    [
        ("string:nothing", "HOLDFAST_TRACEBACKS: there is no function 'string:nothing'"),
        ("string:digits", "HOLDFAST_TRACEBACKS: there is no function 'string:digits'"),
        ("no_such:redact", "HOLDFAST_TRACEBACKS 'no_such:redact': there is no module 'no_such'"),
        (":x", "HOLDFAST_TRACEBACKS is named as mypackage.module:name, got ':x'"),
    ],
)
def test_a_function_that_does_not_exist_is_named(text, line):
    with pytest.raises(BadSetting) as raised:
        options(HOLDFAST_TRACEBACKS=text)
    assert str(raised.value) == line


@pytest.mark.parametrize("code", ["raise RuntimeError('no licence')", "raise SystemExit(3)", "x ="])
def test_a_function_whose_module_cannot_be_imported_is_one_line(tmp_path, monkeypatch, code):
    (tmp_path / "broken_redaction.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadSetting) as raised:
        options(HOLDFAST_TRACEBACKS="broken_redaction:redact")
    line = str(raised.value)
    assert line.startswith("HOLDFAST_TRACEBACKS 'broken_redaction:redact' cannot be imported: ")
    assert "broken_redaction.py, line 1" in line
    assert "\n" not in line
