"""Uploads are written while more arrives, within a shared memory limit."""

import asyncio
import errno
import hashlib
import threading

import pytest

from holdfast.files import ArtifactStore
from holdfast_conversion.file_names import StorageError
from holdfast_conversion.file_writer import LARGEST_BATCH, FileWriter, UploadMemory


@pytest.fixture
def draft(tmp_path):
    store = ArtifactStore(tmp_path)
    store.prepare()
    with store.draft() as draft:
        yield draft


def test_the_more_uploads_there_are_the_less_each_may_gather():
    memory = UploadMemory()
    sizes = [memory.batch_bytes]
    with memory.place():
        sizes.append(memory.batch_bytes)
        with (
            memory.place(),
            memory.place(),
            memory.place(),
            memory.place(),
            memory.place(),
            memory.place(),
        ):
            sizes.append(memory.batch_bytes)
    sizes.append(memory.batch_bytes)

    alone, one, seven, again = sizes
    assert alone == one == again == LARGEST_BATCH
    assert seven < one


def test_twenty_uploads_share_what_one_server_may_use():
    memory = UploadMemory()

    def gathered(count):
        with memory.place():
            return gathered(count - 1) if count > 1 else memory.batch_bytes

    assert 20 * 2 * gathered(20) <= 3 * 1024 * 1024
    assert gathered(500) > 0


def test_pieces_are_written_in_order_and_hashed(draft):
    pieces = [bytes([number]) * 1000 for number in range(50)]

    async def scenario():
        storing = FileWriter(draft)
        for number, piece in enumerate(pieces):
            storing.add(memoryview(piece) if number % 2 else piece)
            if number % 7 == 0:
                await storing.flush()
                assert storing.waiting == 0
        return await storing.finish()

    whole = b"".join(pieces)
    assert asyncio.run(scenario()) == hashlib.sha256(whole).hexdigest()
    draft.publish("uploads/x.pdf")
    assert draft.size == len(whole)


def test_more_comes_in_while_a_batch_is_written(draft, monkeypatch):
    writing, go = threading.Event(), threading.Event()
    real = draft.write

    def slow(piece):
        writing.set()
        assert go.wait(20)
        real(piece)

    monkeypatch.setattr(draft, "write", slow)

    async def scenario():
        storing = FileWriter(draft)
        storing.add(b"first")
        await storing.flush()
        await asyncio.to_thread(writing.wait, 20)
        storing.add(b"second")  # does not wait for the disk
        go.set()
        return await storing.finish()

    assert asyncio.run(scenario()) == hashlib.sha256(b"firstsecond").hexdigest()


def test_a_failing_disk_is_reported_with_the_next_batch(draft, monkeypatch):
    def broken(_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(draft, "write", broken)

    async def scenario():
        storing = FileWriter(draft)
        storing.add(b"x")
        await storing.flush()
        with pytest.raises(StorageError):
            await storing.flush()
        await storing.settle()

    asyncio.run(scenario())


def test_a_caller_that_gives_up_waits_for_the_thread_and_gets_no_error(draft, monkeypatch):
    done = []

    def broken(_):
        done.append(True)
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(draft, "write", broken)

    async def scenario():
        storing = FileWriter(draft)
        await storing.settle()
        storing.add(b"x")
        await storing.flush()
        await storing.settle()
        assert done == [True]

    asyncio.run(scenario())
