"""Frames: what is sent arrives, and nothing that a child says is believed."""

import asyncio
import json
import socket

import pytest
from tests.support.workers import claim

from holdfast.errors import ErrorCode, RetryLater
from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.failure import look, of_code
from holdfast.jobs.worker.isolation.frames import (
    SMALL,
    BrokenFrame,
    FrameKind,
    dump_claim,
    dump_trouble,
    load_claim,
    load_progress,
    load_trouble,
    pack,
    read_frame,
    receive,
)

app = App("a")


@app.job()
async def work(ctx): ...


def read(data, largest=1000):
    async def go():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read_frame(reader, largest)

    return asyncio.run(go())


def test_frames_come_through_both_ways():
    assert read(pack(FrameKind.RESULT, '"grüße"')) == (FrameKind.RESULT, '"grüße"')
    assert read(pack(FrameKind.PROGRESS, [0.5, None])) == (FrameKind.PROGRESS, [0.5, None])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(pack(FrameKind.JOB, {"a": [1]}))
        assert receive(theirs) == (FrameKind.JOB, {"a": [1]})
        ours.sendall(pack(FrameKind.JOB, {"a": [1]})[:7])
        ours.close()
        assert receive(theirs) is None
        assert receive(theirs) is None


@pytest.mark.parametrize(
    "data",
    [
        b"?\0\0\0\0",
        b"T\0\0\0\x02{{",
        b"T\0\0\0\x01\xff",
        pack(FrameKind.RESULT, "x" * 1001),
        pack(FrameKind.TROUBLE, "x" * SMALL),
        b"T\0\0\x27\x10" + b"[" * 10_000,
    ],
    ids=["unknown", "malformed", "no text", "large result", "large trouble", "deep"],
)
def test_what_does_not_fit_is_refused(data):
    with pytest.raises(BrokenFrame):
        read(data)


def test_a_frame_that_breaks_off_is_the_end():
    with pytest.raises(asyncio.IncompleteReadError):
        read(pack(FrameKind.RESULT, "null")[:-1])


def test_a_claim_comes_through_but_for_its_permit():
    given = claim(owner="ann", meta="{}", deadline_at=5.0, arguments="[1]")
    assert load_claim(json.loads(json.dumps(dump_claim(given)))) == given


@pytest.mark.parametrize(
    "trouble",
    [
        of_code(ErrorCode.MEMORY_ERROR),
        look(RetryLater(7), work.kind, 0.0),
        look(TimeoutError("slow"), work.kind, 0.0),
    ],
)
def test_a_trouble_comes_through(trouble):
    assert load_trouble(json.loads(json.dumps(dump_trouble(trouble)))) == trouble


GOOD = dump_trouble(of_code(ErrorCode.UNKNOWN, "x"))


@pytest.mark.parametrize(
    "fields",
    [
        None, [], {}, {**GOOD, "code": "NO_SUCH"}, {**GOOD, "category": 7},
        {**GOOD, "after": "1"}, {**GOOD, "after": -1}, {**GOOD, "retry_after": float("nan")},
        {**GOOD, "after": True},
    ],
)  # fmt: skip
def test_a_trouble_that_makes_no_sense_is_refused(fields):
    with pytest.raises(BrokenFrame):
        load_trouble(fields)


def test_what_a_trouble_says_is_cleaned():
    read_back = load_trouble({**GOOD, "message": "a\nb\0" + "x" * 9999, "status": "503"})
    assert read_back.message.startswith("a b")
    assert len(read_back.message) == 500
    assert read_back.diagnosis.status is None


def test_progress_is_checked():
    assert load_progress([None, "half\nway"]) == (None, "half way")
    assert load_progress([1, None]) == (1, None)
    for bad in (None, [1], [2, None], ["1", None], [True, None], [float("nan"), None]):
        with pytest.raises(BrokenFrame):
            load_progress(bad)
