"""Whether a process lives: by its id and its start, where both mean something."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.store.sqlite import process_identity
from holdfast.store.sqlite.process_identity import ProcessIdentity

SLEEPER = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def sleeper():
    """Another process, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def identity(pid):
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return replace(ProcessIdentity.own(), pid=pid, started=int(fields[19]))


def test_a_process_lives_until_it_ends(sleeper):
    here, other = ProcessIdentity.own(), identity(sleeper.pid)
    assert (here.pid, here.has_died(here)) == (os.getpid(), False)
    assert not other.has_died(here)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert other.has_died(here), "it is a zombie: its parent has not waited for it"
    sleeper.wait()
    assert other.has_died(here)


def test_a_process_id_that_was_used_again_is_another_process(sleeper):
    here, other = ProcessIdentity.own(), identity(sleeper.pid)
    assert replace(other, started=other.started - 1).has_died(here)


@pytest.mark.parametrize("change", [{"boot": "another"}, {"namespace": "pid:[1]"}])
def test_a_process_that_cannot_be_inspected_is_not_called_dead(sleeper, change):
    here, other = ProcessIdentity.own(), identity(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert other.has_died(here)
    assert not replace(other, **change).has_died(here)


def test_a_process_that_the_system_hides_is_not_called_dead(monkeypatch):
    here = ProcessIdentity.own()

    def hidden(pid):
        raise FileNotFoundError(pid)

    monkeypatch.setattr(process_identity, "_stat", hidden)
    assert not here.has_died(here)
    assert ProcessIdentity.own() is None


def test_without_a_boot_id_no_process_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(process_identity, "_BOOT", tmp_path / "missing")
    assert process_identity.boot_id.__wrapped__() is None
    monkeypatch.setattr(process_identity, "boot_id", lambda: None)
    assert ProcessIdentity.own() is None
