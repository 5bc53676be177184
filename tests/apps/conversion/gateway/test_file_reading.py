"""A file read in ranges of pages: order, helpers, limits, and which refusal counts."""

import asyncio
import errno
import json
import threading
import time

import httpx
import pytest
from tests.apps.conversion.gateway_process import ticks
from tests.apps.conversion.pdf_writer import Text, document, paragraph

from holdfast.children import BrokenFrame, FrameKind, json_answer
from holdfast_conversion.gateway import reader_pool
from holdfast_conversion.gateway.file_reading import FileReading, RangeRead
from holdfast_conversion.gateway.formats import Caps, Mapping
from holdfast_conversion.gateway.gateway_settings import ReaderLimits
from holdfast_conversion.gateway.reading.mappings import convert
from holdfast_conversion.gateway.rejections import Reason, Rejection
from holdfast_conversion.gateway.scratch import ScratchFile


class Children:
    """Stand in for the children: each range is a line of XML, and ends when its event is set."""

    def __init__(self, pages, helpers=0):
        self.pages = pages
        self.most = 1 + helpers
        self.requests = []
        self.reading = 0
        self.together = []
        self.refuse = {}
        self.hold = {}
        self.readable = True
        self.cpu_seconds = 0.1

    def may_help(self):
        return self.reading < self.most

    async def read_range(self, request, file):
        self.requests.append(request)
        self.reading += 1
        self.together.append(self.reading)
        try:
            await self.hold.get(request.first, asyncio.sleep)(0)
        finally:
            self.reading -= 1
        if request.first in self.refuse:
            raise Rejection(self.refuse[request.first])
        file.write(b"%d-%d\n" % (request.first, min(request.stop, self.pages)))
        return RangeRead(self.pages, self.readable, self.cpu_seconds)

    async def convert(self, mapping=Mapping.TEXT, limits=ReaderLimits(), size=1000):  # noqa: B008 - frozen
        target = ScratchFile()
        await FileReading(mapping, size, target, limits, self.read_range, self.may_help).run()
        return b"".join(target.pieces()).decode().split()

    def refusal(self, **settings):
        with pytest.raises(Rejection) as refused:
            asyncio.run(self.convert(**settings))
        return refused.value.reason


def joined(ranges):
    """Return the first page and the end of ranges that follow each other."""
    bounds = [[int(part) for part in one.split("-")] for one in ranges]
    assert [stop for _, stop in bounds[:-1]] == [first for first, _ in bounds[1:]]
    return bounds[0][0], bounds[-1][1]


def test_a_short_document_is_one_range():
    children = Children(8, helpers=3)
    assert asyncio.run(children.convert()) == ["0-8"]
    assert len(children.requests) == 1


@pytest.mark.parametrize("size", [1000, 10_000_000])
def test_metadata_are_read_at_once(size):
    children = Children(5000, helpers=3)
    assert asyncio.run(children.convert(Mapping.METADATA, size=size)) == ["0-5000"]


def test_others_help_with_a_large_file_after_its_first_page():
    children = Children(100, helpers=1)
    assert joined(asyncio.run(children.convert(size=1_000_000))) == (0, 100)
    assert [(one.first, one.stop) for one in children.requests][:3] == [(0, 1), (1, 25), (25, 43)]
    assert children.together[:3] == [1, 1, 2]


def test_the_ranges_of_a_long_document_are_few_and_grow():
    children = Children(5000)
    assert joined(asyncio.run(children.convert())) == (0, 5000)
    assert len(children.requests) < 50
    assert set(children.together) == {1}


def test_the_ranges_of_a_manual_are_long_first_and_short_at_the_end():
    children = Children(196)
    assert joined(asyncio.run(children.convert())) == (0, 196)
    lengths = [request.stop - request.first for request in children.requests]
    assert lengths == [8, 32, 32, 31, 23, 17, 13, 10, 8, 8, 8, 8]


def test_several_children_read_the_same_ranges_as_one_and_the_xml_is_in_order():
    alone, several = Children(400), Children(400, helpers=3)
    first = asyncio.Event()

    async def until_another_is_read(_):
        await first.wait()

    async def let_it_go(_):
        first.set()

    several.hold = {8: until_another_is_read, 72: let_it_go}
    assert asyncio.run(several.convert()) == asyncio.run(alone.convert())
    assert max(several.together) == 4


def test_no_helper_takes_a_range_once_the_machine_is_busy():
    children = Children(400, helpers=1)

    async def others_come(_):
        children.most = 0

    children.hold = {72: others_come}
    assert joined(asyncio.run(children.convert())) == (0, 400)
    assert 2 in children.together
    assert set(children.together[-5:]) == {1}


def test_the_reason_is_that_of_the_first_range_that_is_refused():
    children = Children(400, helpers=1)
    later = asyncio.Event()

    async def until_the_later_one_failed(_):
        await later.wait()

    async def fail_first(_):
        later.set()

    children.refuse = {8: Reason.CRASHED, 40: Reason.OUT_OF_MEMORY}
    children.hold = {8: until_the_later_one_failed, 40: fail_first}
    assert children.refusal() is Reason.CRASHED
    assert {request.first for request in children.requests} == {0, 8, 40}


def test_computing_time_is_counted_over_all_ranges():
    children = Children(400, helpers=1)
    children.cpu_seconds = 4.0
    assert children.refusal(limits=ReaderLimits(cpu_seconds=10)) is Reason.OUT_OF_CPU
    assert len(children.requests) <= 4
    assert [one.cpu_seconds for one in children.requests][:2] == [10, 6]


def test_the_xml_of_all_ranges_together_is_bounded():
    children = Children(400, helpers=1)
    limits = ReaderLimits(caps=Caps(output_bytes=20))
    assert children.refusal(limits=limits) is Reason.OUTPUT_TOO_LARGE


def test_one_readable_page_is_enough_and_none_is_not():
    children = Children(40)
    children.readable = False
    assert children.refusal() is Reason.DAMAGED


def test_a_full_disk_is_no_fault_of_the_file(monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(ScratchFile, "copy_to", fail)
    assert Children(40).refusal() is Reason.STORAGE


def test_a_cancelled_reading_leaves_no_helper_behind():
    children = Children(400, helpers=2)

    async def for_ever(_):
        await asyncio.Event().wait()

    async def cancel():
        children.hold = {8: for_ever, 16: for_ever}
        task = asyncio.create_task(children.convert())
        while children.reading < 2:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert (children.reading, len(asyncio.all_tasks())) == (0, 1)

    asyncio.run(cancel())


@pytest.mark.parametrize(
    "fields",
    [
        {"pages": 1e999},
        {"pages": 0},
        {"pages": 101},
        {"pages": "1"},
        {"cpu_seconds": -1},
        {"cpu_seconds": 1e999},
        {"cpu_seconds": "1"},
        {"cpu_seconds": None},
    ],
)
def test_numbers_that_cannot_be_are_a_broken_answer(fields):
    sound = {"reason": None, "pages": 3, "readable": True, "cpu_seconds": 0.5}
    read = json_answer(lambda _child, said: reader_pool._answer(said, 100))
    assert read(None, FrameKind.ANSWER, json.dumps(sound)) == RangeRead(3, True, 0.5)
    with pytest.raises(BrokenFrame):
        read(None, FrameKind.ANSWER, json.dumps({**sound, **fields}))


HELLO = document([Text(72, 700, "Hello")])


def long_document(pages):
    words = paragraph(40, 780, ["words to take time with, and more"] * 60, 9)
    return document(*[[*words, Text(500, 40, f"page {number}")] for number in range(pages)])


@pytest.mark.parametrize("mapping", list(Mapping))
def test_the_gateway_gives_the_same_xml_as_a_reading_of_all_pages_at_once(gateway, mapping):
    long = long_document(50)
    assert gateway.convert(long, mapping).content == convert(long, mapping)


def test_children_that_help_with_a_long_file_take_no_place_from_other_files(start_gateway):
    two = start_gateway({"children": 2})
    at_rest = {child: ticks(child) for child in two.children()}
    answers = []
    long = threading.Thread(
        target=lambda: answers.append(two.convert(long_document(200), "layout"))
    )
    long.start()
    while not all(ticks(child) > at_rest[child] + 5 for child in at_rest):
        assert long.is_alive(), "one child has read it alone"
        time.sleep(0.005)
    with httpx.Client(base_url=two.address, timeout=60, trust_env=False) as client:
        answer = client.post("/convert", params={"mapping": "text"}, content=HELLO)
    assert answer.status_code == 200
    assert len(two.children()) == 3, "it waited for one of the two"
    long.join()
    assert answers[0].status_code == 200
