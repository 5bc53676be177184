"""Backups: one consistent set of database and files, put back elsewhere."""

import asyncio
import json
import stat

import apsw
import pytest

from holdfast import App, Engine, JobContext, JobStatus
from holdfast.backup import BackupDamaged, BackupError, Manifest, back_up, restore
from holdfast.files import ArtifactStore
from holdfast.jobs.store_port import BadAddress, StoreBusy, StoreUnusable
from holdfast.store.sqlite.backup import DatabaseFile

app = App("books")


@app.job()
async def read(_ctx: JobContext, file: str) -> str:
    return file


@pytest.fixture
def data(tmp_path):
    """A data folder with a database of two jobs, a file of each, and the server's secrets."""
    folder = tmp_path / "data"
    store = ArtifactStore(folder / "files")
    store.prepare()
    for name in ("uploads/one", "uploads/two"):
        with store.draft() as draft:
            draft.write(name.encode())
            draft.publish(name)
    (folder / "secret.key").write_text("a secret of sixteen characters")
    asyncio.run(enqueue(url_of(folder), ["uploads/one", "uploads/two"]))
    return folder


def url_of(folder):
    return f"sqlite:///{folder / 'holdfast.db'}"


async def enqueue(url, names):
    async with Engine(url, apps=[app]) as engine:
        for name in names:
            await engine.enqueue(read, name)


async def drained(url):
    async with Engine(url, apps=[app]) as engine:
        await engine.work(until_idle=True)
        return sorted((job.status, json.loads(job.result)) for job in (await engine.list()).jobs)


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# -- round trip ------------------------------------------------------------------------------------


def test_what_was_backed_up_is_restored_elsewhere_and_its_jobs_run(data, tmp_path):
    written = back_up(url_of(data), data, tmp_path / "backup")
    new = tmp_path / "new"

    restored = restore(tmp_path / "backup", url_of(new), new)

    assert restored == written == Manifest.read(tmp_path / "backup")
    assert (written.files, written.has_database) == (2, True)
    assert written.bytes == sum(entry.bytes for entry in written.entries.values())
    files = {name: text for name, text in tree(new).items() if "holdfast.db" not in name}
    assert files == {
        "secret.key": b"a secret of sixteen characters",
        "files/uploads/one": b"uploads/one",
        "files/uploads/two": b"uploads/two",
    }
    assert asyncio.run(drained(url_of(new))) == [
        (JobStatus.COMPLETE, "uploads/one"),
        (JobStatus.COMPLETE, "uploads/two"),
    ]


def test_a_backup_is_readable_for_its_owner_only(data, tmp_path):
    back_up(url_of(data), data, tmp_path / "backup")

    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == 0o700


def test_a_database_outside_of_the_data_folder_is_put_where_its_address_says(data, tmp_path):
    back_up(url_of(data), data, tmp_path / "backup")
    (tmp_path / "elsewhere").mkdir()
    url = f"sqlite:///{tmp_path / 'elsewhere' / 'work.db'}"

    restore(tmp_path / "backup", url, tmp_path / "new")

    assert len(asyncio.run(drained(url))) == 2
    assert not (tmp_path / "new" / "holdfast.db").exists()


def test_a_job_that_ran_when_the_backup_was_made_runs_again_at_once(data, tmp_path):
    running = App("slow")
    started, go_on = asyncio.Event(), asyncio.Event()

    @running.job()
    async def slow(_ctx: JobContext) -> str:
        started.set()
        await go_on.wait()
        return "done"

    async def work_and_back_up():
        async with Engine(url_of(data), apps=[running]) as engine:
            job = await engine.enqueue(slow)
            working = asyncio.create_task(engine.work(until_idle=True))
            await started.wait()
            await asyncio.to_thread(back_up, url_of(data), data, tmp_path / "backup")
            go_on.set()
            await working
            return job.id

    async def run_restored(job_id):
        async with Engine(url_of(tmp_path / "new"), apps=[running]) as engine:
            assert (await engine.get(job_id)).status is JobStatus.PROCESSING
            async with asyncio.timeout(60):
                working = asyncio.create_task(engine.work())
                job = await engine.wait(job_id)
                working.cancel()
                await asyncio.wait([working])
            return job

    job_id = asyncio.run(work_and_back_up())
    restore(tmp_path / "backup", url_of(tmp_path / "new"), tmp_path / "new")
    job = asyncio.run(run_restored(job_id))
    assert (job.status, job.attempt_count) == (JobStatus.COMPLETE, 2)


def test_a_server_s_database_is_left_out_which_the_manifest_says(data, tmp_path):
    address = "postgresql://ann:secret@127.0.0.1:1/none"
    written = back_up(address, data, tmp_path / "backup")
    restored = restore(tmp_path / "backup", address, tmp_path / "new")

    assert (written.has_database, written.schema, written.files) == (False, None, 2)
    assert restored.files == 2
    assert "ann" not in (tmp_path / "backup" / "manifest.json").read_text()


# -- while others write ----------------------------------------------------------------------------


def test_a_file_that_is_deleted_while_the_database_is_copied_is_in_the_backup(
    data, tmp_path, monkeypatch
):
    copy = DatabaseFile.copy

    def late(self, target):
        (data / "files/uploads/one").unlink()
        return copy(self, target)

    monkeypatch.setattr(DatabaseFile, "copy", late)

    back_up(url_of(data), data, tmp_path / "backup")

    assert (tmp_path / "backup/data/files/uploads/one").read_bytes() == b"uploads/one"


def test_what_is_committed_after_the_files_were_fixed_is_not_in_the_backup(
    data, tmp_path, monkeypatch
):
    copy = DatabaseFile.copy

    def late(self, target):
        asyncio.run(enqueue(url_of(data), ["uploads/three"]))
        return copy(self, target)

    monkeypatch.setattr(DatabaseFile, "copy", late)

    back_up(url_of(data), data, tmp_path / "backup")
    restore(tmp_path / "backup", url_of(tmp_path / "new"), tmp_path / "new")

    assert len(asyncio.run(drained(url_of(tmp_path / "new")))) == 2
    assert len(asyncio.run(drained(url_of(data)))) == 3


def test_nobody_commits_while_the_files_are_fixed(data):
    file = DatabaseFile(data / "holdfast.db")
    other = apsw.Connection(str(data / "holdfast.db"))
    with file.opened(), file.frozen(), pytest.raises(apsw.BusyError):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE; ROLLBACK")
    other.close()


def test_a_database_that_stays_locked_is_an_error_and_leaves_nothing(data, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "holdfast.bootstrap.database_file",
        lambda _url: DatabaseFile(data / "holdfast.db", busy_timeout=0.05),
    )
    other = apsw.Connection(str(data / "holdfast.db"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        back_up(url_of(data), data, tmp_path / "backups" / "one")
    other.close()

    assert list((tmp_path / "backups").iterdir()) == []


# -- refusals --------------------------------------------------------------------------------------


def test_a_target_that_is_not_empty_is_refused(data, tmp_path):
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "mine").touch()

    with pytest.raises(BackupError, match="not an empty folder"):
        back_up(url_of(data), data, tmp_path / "backup")
    assert [path.name for path in (tmp_path / "backup").iterdir()] == ["mine"]


def test_a_second_backup_at_the_same_time_is_refused_in_one_line(data, tmp_path, monkeypatch):
    copy = DatabaseFile.copy

    def meanwhile(self, target):
        with pytest.raises(BackupError, match="another backup"):
            back_up(url_of(data), data, tmp_path / "second")
        return copy(self, target)

    monkeypatch.setattr(DatabaseFile, "copy", meanwhile)

    assert back_up(url_of(data), data, tmp_path / "first").files == 2
    assert not (tmp_path / "second").exists()


def test_a_target_among_the_files_is_refused(data):
    with pytest.raises(BackupError, match="choose another place"):
        back_up(url_of(data), data, data / "files" / "backup")


def test_a_target_that_cannot_be_written_is_one_line(data, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BackupError, match="could not be written"):
        back_up(url_of(data), data, tmp_path / "file" / "backup")


def test_a_missing_database_and_a_bad_address_are_refused(data, tmp_path):
    with pytest.raises(StoreUnusable, match="no database"):
        back_up(f"sqlite:///{tmp_path / 'none.db'}", data, tmp_path / "backup")
    with pytest.raises(BadAddress):
        back_up("mysql://x", data, tmp_path / "backup")


def test_a_damaged_database_is_not_backed_up(data, tmp_path):
    path = data / "holdfast.db"
    asyncio.run(enqueue(url_of(data), [f"uploads/{number}" for number in range(500)]))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    path.write_bytes(content)

    with pytest.raises(StoreUnusable):
        back_up(url_of(data), data, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_nothing_is_restored_into_a_folder_that_is_not_empty(data, tmp_path):
    back_up(url_of(data), data, tmp_path / "backup")
    before = tree(data)

    with pytest.raises(BackupError, match="nothing is overwritten"):
        restore(tmp_path / "backup", url_of(data), data)
    assert tree(data) == before


def test_a_database_that_is_there_is_not_overwritten(data, tmp_path):
    back_up(url_of(data), data, tmp_path / "backup")

    with pytest.raises(BackupError, match=r"holdfast\.db is there already"):
        restore(tmp_path / "backup", url_of(data), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_database_file_is_not_put_into_a_server(data, tmp_path):
    back_up(url_of(data), data, tmp_path / "backup")

    with pytest.raises(BackupError, match="database server"):
        restore(tmp_path / "backup", "postgresql://127.0.0.1:1/none", tmp_path / "new")


@pytest.mark.parametrize("name", ["database.db", "data/files/uploads/one"])
@pytest.mark.parametrize("change", ["changed", "missing"])
def test_a_damaged_backup_is_refused_and_nothing_appears(data, tmp_path, name, change):
    back_up(url_of(data), data, tmp_path / "backup")
    damaged = tmp_path / "backup" / name
    if change == "changed":
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    else:
        damaged.unlink()

    with pytest.raises(BackupDamaged, match=name):
        restore(tmp_path / "backup", url_of(tmp_path / "new"), tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    "text, line",
    [
        (None, "is not a backup"),
        ("{", "damaged"),
        ('{"format": 1}', "damaged"),
        ('{"format": 9, "holdfast": "9.0"}', "Holdfast 9.0"),
        (
            '{"format": 1, "holdfast": "1", "created_at": "", "schema": null, '
            '"entries": {"data/../../x": {"bytes": 1, "sha256": ""}}}',
            "damaged",
        ),
    ],
)
def test_a_folder_that_holds_no_backup_is_refused(tmp_path, text, line):
    (tmp_path / "backup").mkdir()
    if text is not None:
        (tmp_path / "backup" / "manifest.json").write_text(text)

    with pytest.raises(BackupError, match=line):
        restore(tmp_path / "backup", url_of(tmp_path / "new"), tmp_path / "new")


def test_a_data_folder_that_cannot_be_written_is_one_line(data, tmp_path):
    back_up(url_of(data), data, tmp_path / "backup")
    (tmp_path / "file").touch()

    with pytest.raises(BackupError, match="could not be restored"):
        restore(tmp_path / "backup", f"sqlite:///{tmp_path / 'x.db'}", tmp_path / "file" / "new")
