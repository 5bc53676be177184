"""One thread writes; requests share commits, and fail one by one."""

import asyncio
import threading

import apsw
import pytest

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.store_port import StoreBusy, StoreClosed, StoreFull, StoreUnusable
from holdfast.store.sqlite import writer as writer_module
from holdfast.store.sqlite.writer import Writer


@pytest.fixture
def writer(tmp_path):
    writer = Writer(tmp_path / "a.db", SYSTEM_CLOCK, 1.0)
    writer.start().result(30)
    writer.submit(lambda tx: tx.db.execute("CREATE TABLE t (x UNIQUE)")).result(30)
    yield writer
    writer.close()


def insert(value):
    return lambda tx: tx.db.execute("INSERT INTO t VALUES (?)", (value,))


def stored(tmp_path):
    db = apsw.Connection(str(tmp_path / "a.db"))
    rows = [x for (x,) in db.execute("SELECT x FROM t ORDER BY rowid")]
    db.close()
    return rows


def blocked(writer):
    """Keep the writer busy until the returned event is set."""
    started, go = threading.Event(), threading.Event()

    def work(tx):
        started.set()
        go.wait(30)

    writer.submit(work)
    started.wait(30)
    return go


def test_a_write_that_was_answered_is_committed(writer, tmp_path):
    writer.submit(insert(1)).result(30)
    assert stored(tmp_path) == [1]


def test_requests_that_wait_together_share_one_commit(writer, tmp_path):
    seen = []
    go = blocked(writer)

    def look(tx):
        seen.append(stored(tmp_path))
        insert(len(seen))(tx)

    futures = [writer.submit(look) for _ in range(10)]
    go.set()
    for future in futures:
        future.result(30)
    assert seen == [[]] * 10
    assert stored(tmp_path) == list(range(1, 11))


def test_a_failing_request_does_not_undo_the_others(writer, tmp_path):
    go = blocked(writer)

    def fail(tx):
        insert("gone")(tx)
        raise RuntimeError("no")

    good, bad, twice, last = (
        writer.submit(insert(1)),
        writer.submit(fail),
        writer.submit(insert(1)),
        writer.submit(insert(2)),
    )
    go.set()
    good.result(30)
    with pytest.raises(RuntimeError, match="no"):
        bad.result(30)
    with pytest.raises(Exception, match="UNIQUE") as caught:
        twice.result(30)
    assert isinstance(caught.value.__cause__, apsw.ConstraintError)
    last.result(30)
    assert stored(tmp_path) == [1, 2]


def test_a_failing_request_leaves_nothing(writer, tmp_path):
    def fail(tx):
        insert("gone")(tx)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        writer.submit(fail).result(30)
    writer.submit(insert(1)).result(30)
    assert stored(tmp_path) == [1]


def test_all_requests_of_a_transaction_that_sqlite_rolled_back_fail(writer, tmp_path):
    go = blocked(writer)

    def lose(tx):
        tx.db.execute("ROLLBACK")
        raise apsw.FullError("no room")

    first, second = writer.submit(insert(1)), writer.submit(lose)
    go.set()
    for future in (first, second):
        with pytest.raises(Exception, match="disk is full"):
            future.result(30)
    writer.submit(insert(3)).result(30)
    assert stored(tmp_path) == [3]


def test_a_request_that_was_cancelled_before_its_turn_is_not_done(writer, tmp_path):
    go = blocked(writer)
    future = writer.submit(insert(1))
    assert future.cancel()
    go.set()
    writer.submit(insert(2)).result(30)
    assert stored(tmp_path) == [2]


def test_closing_finishes_submitted_writes(tmp_path):
    writer = Writer(tmp_path / "a.db", SYSTEM_CLOCK, 1.0)
    writer.start().result(30)
    futures = [writer.submit(lambda tx: tx.now) for _ in range(250)]
    writer.close()
    writer.close()
    assert all(future.done() for future in futures)
    with pytest.raises(StoreClosed):
        writer.submit(lambda tx: None)


def test_a_request_before_it_is_open_is_refused(tmp_path):
    writer = Writer(tmp_path / "a.db", SYSTEM_CLOCK, 1.0)
    with pytest.raises(StoreClosed, match="not open"):
        writer.submit(lambda tx: None)
    writer.close()


def test_a_file_that_cannot_be_opened_fails_the_start(tmp_path):
    writer = Writer(tmp_path / "nowhere" / "a.db", SYSTEM_CLOCK, 1.0)
    with pytest.raises(StoreUnusable):
        writer.start().result(30)
    with pytest.raises(StoreClosed):
        writer.submit(lambda tx: None)
    writer.close()


def test_more_requests_than_fit_one_commit_are_all_done(writer, tmp_path):
    go = blocked(writer)
    futures = [writer.submit(insert(number)) for number in range(250)]
    go.set()
    for future in futures:
        future.result(30)
    assert stored(tmp_path) == list(range(250))


def test_another_connections_commit_wakes_a_waiting_task(writer, tmp_path):
    async def scenario():
        waiting = asyncio.create_task(writer.work.wait(writer.work.count, 30))
        await asyncio.sleep(0)
        db = apsw.Connection(str(tmp_path / "a.db"))
        db.execute("INSERT INTO t VALUES (1)")
        db.close()
        return await waiting

    assert asyncio.run(scenario())


def test_a_commit_without_claimable_work_does_not_count_as_work(writer):
    count = writer.work.count
    writer.submit(insert(1)).result(30)
    _, returned = writer.submit(insert(2)).result(30)
    assert writer.work.count == count == returned


def test_a_request_that_changes_nothing_does_not_count_as_a_change(writer):
    count = writer.changes.count
    writer.submit(lambda tx: tx.db.execute("SELECT 1").fetchall()).result(30)
    assert writer.changes.count == count


def test_a_failing_commit_fails_its_request_and_leaves_nothing(writer, tmp_path):
    def refuse(tx):
        insert(1)(tx)
        tx.db.set_commit_hook(lambda: True)

    with pytest.raises(Exception, match="constraint failed"):
        writer.submit(refuse).result(30)
    writer.submit(lambda tx: tx.db.set_commit_hook(None)).result(30)
    assert stored(tmp_path) == []


def test_a_database_that_is_locked_while_it_is_migrated_is_busy(tmp_path):
    db = apsw.Connection(str(tmp_path / "a.db"))
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.execute("BEGIN IMMEDIATE")
    writer = Writer(tmp_path / "a.db", SYSTEM_CLOCK, 0.05)
    with pytest.raises(StoreBusy):
        writer.start().result(30)
    db.close()
    writer.close()


def test_a_writer_that_dies_refuses_later_requests(writer, monkeypatch):
    go = blocked(writer)
    monkeypatch.setattr(
        Writer, "_notice_other_commits", lambda self, db: (_ for _ in ()).throw(SystemExit)
    )
    go.set()
    writer._thread.join(30)
    with pytest.raises(StoreClosed):
        writer.submit(insert(1))


def test_a_writer_that_dies_fails_requests_behind_a_cancelled_one(writer, monkeypatch):
    go = blocked(writer)
    monkeypatch.setattr(
        Writer, "_notice_other_commits", lambda self, db: (_ for _ in ()).throw(SystemExit)
    )
    monkeypatch.setattr("holdfast.store.sqlite.writer._MOST_AT_ONCE", 1)
    given_up, waiting = [writer.submit(insert(number)) for number in (1, 2)]
    assert given_up.cancel()
    go.set()
    with pytest.raises(StoreClosed):
        waiting.result(30)


def test_a_writer_that_dies_in_a_transaction_fails_all_requests_and_leaves_nothing(
    writer, tmp_path
):
    go = blocked(writer)

    def die(tx):
        insert("gone")(tx)
        raise SystemExit

    futures = [writer.submit(insert(1)), writer.submit(die)]
    futures += [writer.submit(insert(number)) for number in range(2, 200)]
    go.set()
    for future in futures:
        with pytest.raises(StoreClosed, match="SystemExit"):
            future.result(30)
    assert stored(tmp_path) == []


def test_a_log_that_cannot_be_checkpointed_is_a_full_disk(writer, tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "_checkpointed", lambda db: False)
    times = []

    def fill(tx):
        times.append(tx)
        tx.db.execute("ROLLBACK")
        raise apsw.FullError("no room")

    with pytest.raises(StoreFull):
        writer.submit(fill).result(30)
    assert len(times) == 1


def test_a_log_is_not_checkpointed_while_an_older_snapshot_is_read(tmp_path):
    writing, reading = (apsw.Connection(str(tmp_path / "b.db")) for _ in range(2))
    writing.execute("PRAGMA journal_mode = WAL").fetchall()
    writing.execute("CREATE TABLE t (x)")
    reading.execute("BEGIN")
    reading.execute("SELECT * FROM t").fetchall()
    writing.execute("INSERT INTO t VALUES (1)")
    assert not writer_module._checkpointed(writing)
    reading.execute("ROLLBACK")
    assert writer_module._checkpointed(writing)
    reading.close()
    writing.close()
