"""Files are published atomically."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.files import ArtifactStore
from holdfast.files import artifacts as module

HOLD = """
import sys
from pathlib import Path
from holdfast.files import ArtifactStore
store = ArtifactStore(Path(sys.argv[1]))
draft = store.draft()
draft.write(b"half")
if sys.argv[2]:
    draft.publish(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path):
    store = ArtifactStore(tmp_path / "files")
    store.prepare()
    return store


def holder(store, name=""):
    """Start a process that holds a draft, published as `name` if given."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store.root), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2])},
    )
    assert process.stdout.readline() == "held\n"
    return process


def killed(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def drafts(store):
    return list((store.root / ".drafts").iterdir())


def names(store, folder):
    return sorted(each.name for each in store.list(folder))


def test_a_published_file_is_there_whole_under_its_name(store):
    with store.draft() as draft:
        draft.write(b"one ")
        draft.write(bytearray(b"two"))
        draft.publish("results/job.1.xml")

    with store.open("results/job.1.xml") as file:
        assert file.read() == b"one two"
    found = store.find("results/job.1.xml")
    assert (found.name, found.size) == ("results/job.1.xml", 7)
    assert drafts(store) == []


def test_nothing_is_seen_before_it_is_published(store):
    with store.draft() as draft:
        draft.write(b"half")

        assert store.find("results/job.1.xml") is None
        assert list(store.list("results")) == []


def test_a_draft_that_is_not_published_leaves_nothing_behind(store):
    with store.draft() as draft:
        draft.write(b"half")
    draft.close()

    assert drafts(store) == []


def test_files_are_readable_by_their_owner_only(store):
    with store.draft() as draft:
        draft.publish("uploads/a.pdf")

    assert store.path("uploads/a.pdf").stat().st_mode & 0o077 == 0
    assert store.root.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "/etc/passwd",
        "uploads/../x",
        "uploads/a/b",
        "uploads/.hidden",
        "up\0/x",
        "A/b",
        "uploads/" + "x" * 300,
        "../uploads/x",
        "uploads/a b",
    ],
)
def test_names_that_could_leave_the_folder_are_refused(store, name):
    with pytest.raises(ValueError, match="an artifact is called"):
        store.path(name)


def test_deleting_returns_whether_the_file_existed(store):
    with store.draft() as draft:
        draft.publish("uploads/a.pdf")

    assert store.delete("uploads/a.pdf") is True
    assert store.delete("uploads/a.pdf") is False
    assert store.find("uploads/a.pdf") is None


def test_a_folder_is_listed_without_foreign_files(store):
    with store.draft() as draft:
        draft.publish("uploads/a.pdf")
    (store.root / "uploads" / ".stray").touch()

    assert names(store, "uploads") == ["uploads/a.pdf"]
    assert names(store, "nowhere") == []


def test_a_draft_is_published_once(store):
    with store.draft() as draft:
        draft.publish("uploads/a.pdf")
        with pytest.raises(ValueError, match="published or closed before"):
            draft.publish("uploads/b.pdf")


def test_writing_to_a_closed_draft_is_an_error_and_touches_no_other_file(store, tmp_path):
    draft = store.draft()
    draft.close()
    with (tmp_path / "other").open("wb") as other:
        with pytest.raises(OSError, match=r"[Bb]ad file"):
            draft.write(b"x")
        with pytest.raises(ValueError, match="published or closed before"):
            draft.publish("uploads/a.pdf")
        assert other.tell() == 0


def test_a_failed_fsync_publishes_nothing(store, monkeypatch):
    def broken(fd):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(module.os, "fsync", broken)
    with store.draft() as draft, pytest.raises(OSError, match="broken"):
        draft.publish("uploads/a.pdf")

    assert names(store, "uploads") == []
    assert drafts(store) == []


def test_a_folder_that_cannot_be_synced_publishes_nothing(store, monkeypatch):
    real = os.fsync
    calls = []

    def second_is_broken(fd):
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.EIO, "broken")
        real(fd)

    monkeypatch.setattr(module.os, "fsync", second_is_broken)
    with store.draft() as draft, pytest.raises(OSError, match="broken"):
        draft.publish("uploads/a.pdf")

    assert names(store, "uploads") == []


def test_drafts_of_the_dead_are_swept_and_those_of_the_living_are_not(store):
    alive, dead = holder(store), holder(store)
    with store.draft() as mine:
        mine.write(b"x")
        dead.kill()
        dead.wait()
        assert len(drafts(store)) == 3

        assert store.sweep_drafts() == 1
        assert len(drafts(store)) == 2
    killed(dead)
    killed(alive)
    store.prepare()
    assert drafts(store) == []


def test_a_published_file_is_locked_until_its_writer_releases_it_or_dies(store):
    process = holder(store, "uploads/a.pdf")
    assert store.is_held("uploads/a.pdf") is True
    killed(process)
    assert store.is_held("uploads/a.pdf") is False

    with store.draft() as draft:
        draft.publish("uploads/b.pdf")
        assert store.is_held("uploads/b.pdf") is True
    assert store.is_held("uploads/b.pdf") is False
    assert store.is_held("uploads/none.pdf") is False


def test_a_deleted_folder_is_created_again(store):
    (store.root / ".drafts").rmdir()

    with store.draft() as draft:
        draft.publish("uploads/a.pdf")

    assert names(store, "uploads") == ["uploads/a.pdf"]


def test_a_concurrent_sweep_deletes_no_active_draft(store):
    stop = threading.Event()

    def sweep():
        while not stop.is_set():
            store.sweep_drafts()

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for number in range(300):
            with store.draft() as draft:
                draft.write(b"x")
                draft.publish(f"uploads/{number}.pdf")
    finally:
        stop.set()
        sweeper.join()

    assert len(names(store, "uploads")) == 300


def test_a_large_file_is_made_durable_as_it_grows(store, monkeypatch):
    synced, real = [], os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd)))
    mebibyte = bytes(1024 * 1024)

    with store.draft() as draft:
        for _ in range(20):
            draft.write(mebibyte)

    assert synced == [8 * len(mebibyte), 16 * len(mebibyte)]
