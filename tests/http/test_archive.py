"""A ZIP file that is made while it is sent."""

import asyncio
import io
import tracemalloc
import zipfile

import pytest

from holdfast.http.archive import PIECE, EntryNames, zip_of
from holdfast.http.plugins import Download


class Endless(io.RawIOBase):
    """A file of `size` bytes that takes no memory."""

    def __init__(self, size):
        self._left = size

    def read(self, most=-1):
        count = min(most, self._left)
        self._left -= count
        return b"x" * count


async def served(downloads):
    for each in downloads:
        yield each


def packed(*files):
    """Return the pieces of an archive of files, each (name, content)."""
    downloads = [Download(io.BytesIO(data), len(data), name, "text/plain") for name, data in files]

    async def read():
        return [piece async for piece in zip_of(served(downloads))]

    pieces = asyncio.run(read())
    assert all(each.file.closed for each in downloads)
    return pieces


def opened(pieces):
    return zipfile.ZipFile(io.BytesIO(b"".join(pieces)))


def test_every_file_is_in_it_whole():
    files = [("a.xml", b"<a/>"), ("empty.xml", b""), ("large.xml", bytes(range(256)) * 8000)]

    archive = opened(packed(*files))

    assert archive.testzip() is None
    assert [(name, archive.read(name)) for name in archive.namelist()] == files


def test_without_files_it_is_an_empty_archive():
    assert opened(packed()).namelist() == []


def test_memory_does_not_grow_with_the_files():
    size = 64 * PIECE

    async def read():
        files = (Download(Endless(size), size, "x", "text/plain") for _ in range(3))
        return max([len(piece) async for piece in zip_of(served(files))])

    tracemalloc.start()
    largest = asyncio.run(read())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert largest <= 2 * PIECE
    assert peak < 8 * PIECE


def test_a_file_that_cannot_be_read_breaks_the_archive_off():
    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError("bad sector")

    broken = Broken()

    async def read():
        downloads = served([Download(broken, 9, "a", "text/plain")])
        return [piece async for piece in zip_of(downloads)]

    with pytest.raises(OSError, match="bad sector"):
        asyncio.run(read())
    assert broken.closed


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["a.xml", "a.xml", "A.XML", "a.xml"], ["a.xml", "a (2).xml", "A (3).XML", "a (4).xml"]),
        (["a (2).xml", "a.xml", "a.xml"], ["a (2).xml", "a.xml", "a (3).xml"]),
        (["../../etc/passwd", "c:\\x.xml"], ["_.._etc_passwd", "c__x.xml"]),
        (["", ".", "..."], ["file", "file (2)", "file (3)"]),
        (["e\u0301.xml", "\u00e9.xml"], ["é.xml", "é (2).xml"]),
        (["line\nbreak\x00.xml", "\udcff.xml"], ["line_break_.xml", "_.xml"]),
    ],
)
def test_names_are_safe_and_no_two_are_alike(given, named):
    names = EntryNames()

    assert [names.take(each) for each in given] == named


def test_a_long_name_keeps_its_ending_and_its_number():
    names = EntryNames()
    taken = [names.take("☃" * 300 + ".xml") for _ in range(2)]

    assert [len(name.encode()) <= 200 for name in taken] == [True, True]
    assert taken[0].endswith("☃.xml")
    assert taken[1].endswith("☃ (2).xml")
