"""Snapshots of files: what was there stays readable, whatever is deleted meanwhile."""

import os

import pytest

from holdfast.files import ArtifactStore
from holdfast.files.snapshot import FileSnapshot, SnapshotBusy


@pytest.fixture
def store(tmp_path):
    store = ArtifactStore(tmp_path / "files")
    store.prepare()
    return store


def put(store, name, content):
    with store.draft() as draft:
        draft.write(content)
        draft.publish(name)


def contents(snapshot):
    return {name: path.read_bytes() for name, path in snapshot.files()}


def test_a_file_that_is_deleted_after_it_was_taken_is_still_there(store):
    put(store, "uploads/a", b"one")
    with FileSnapshot(store.root) as snapshot:
        snapshot.take()
        store.delete("uploads/a")

        assert contents(snapshot) == {"uploads/a": b"one"}


def test_taking_again_adds_what_is_new_and_keeps_what_is_gone(store):
    put(store, "uploads/a", b"one")
    with FileSnapshot(store.root) as snapshot:
        snapshot.take()
        store.delete("uploads/a")
        put(store, "results/b", b"two")
        snapshot.take()

        assert contents(snapshot) == {"uploads/a": b"one", "results/b": b"two"}


def test_drafts_are_left_out(store):
    put(store, "uploads/a", b"one")
    with store.draft() as draft, FileSnapshot(store.root) as snapshot:
        draft.write(b"half")
        snapshot.take()

        assert contents(snapshot) == {"uploads/a": b"one"}


def test_a_second_snapshot_is_refused_and_the_first_keeps_its_files(store):
    put(store, "uploads/a", b"one")
    with FileSnapshot(store.root) as first, FileSnapshot(store.root) as second:
        first.take()
        with pytest.raises(SnapshotBusy, match="another backup"):
            second.take()

        assert contents(first) == {"uploads/a": b"one"}
    with FileSnapshot(store.root) as third:
        third.take()

        assert contents(third) == {"uploads/a": b"one"}


def test_nothing_is_left_at_the_end_and_what_a_dead_process_left_is_deleted(store):
    left = store.root / ".snapshots" / "abandoned" / "uploads"
    left.mkdir(parents=True)
    (left / "a").write_bytes(b"old")

    with FileSnapshot(store.root) as snapshot:
        snapshot.take()

    assert list((store.root / ".snapshots").iterdir()) == []


def test_cleanup_deletes_what_a_dead_process_left_and_keeps_a_snapshot_in_use(store):
    left = store.root / ".snapshots" / "abandoned" / "uploads"
    left.mkdir(parents=True)
    (left / "a").write_bytes(b"old")

    store.sweep_drafts()

    assert list((store.root / ".snapshots").iterdir()) == []
    put(store, "uploads/a", b"one")
    with FileSnapshot(store.root) as snapshot:
        snapshot.take()
        store.sweep_drafts()

        assert contents(snapshot) == {"uploads/a": b"one"}


def test_the_first_file_of_a_folder_that_appears_between_two_looks_is_taken(tmp_path):
    store = ArtifactStore(tmp_path / "files")
    with FileSnapshot(store.root) as snapshot:
        snapshot.take()
        store.prepare()
        put(store, "uploads/a", b"one")
        snapshot.take()

        assert contents(snapshot) == {"uploads/a": b"one"}


def test_a_folder_that_is_not_there_has_no_files(tmp_path):
    with FileSnapshot(tmp_path / "none") as snapshot:
        snapshot.take()

        assert contents(snapshot) == {}
    assert not (tmp_path / "none").exists()


def test_a_file_that_vanishes_between_listing_and_linking_is_left_out(store, monkeypatch):
    put(store, "uploads/a", b"one")
    link = os.link

    def gone(source, target):
        store.delete("uploads/a")
        link(source, target)

    monkeypatch.setattr(os, "link", gone)
    with FileSnapshot(store.root) as snapshot:
        snapshot.take()

        assert contents(snapshot) == {}
