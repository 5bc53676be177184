"""Frames: what is sent arrives, and nothing that a child sends is trusted."""

import asyncio
import os
import socket

import pytest

from holdfast.children.frames import (
    SMALL,
    BrokenFrame,
    FrameKind,
    pack,
    read_frame,
    receive,
    receive_with_files,
)


def read(data, largest=1000):
    async def go():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read_frame(reader, largest)

    return asyncio.run(go())


def test_frames_come_through_both_ways():
    assert read(pack(FrameKind.ANSWER, '"grüße"')) == (FrameKind.ANSWER, '"grüße"')
    assert read(pack(FrameKind.PROGRESS, [0.5, None])) == (FrameKind.PROGRESS, [0.5, None])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(pack(FrameKind.REQUEST, {"a": [1]}))
        assert receive(theirs) == (FrameKind.REQUEST, {"a": [1]})
        ours.sendall(pack(FrameKind.REQUEST, {"a": [1]})[:7])
        ours.close()
        assert receive(theirs) is None
        assert receive(theirs) is None


@pytest.mark.parametrize(
    "data",
    [
        b"?\0\0\0\0",
        b"E\0\0\0\x02{{",
        b"E\0\0\0\x01\xff",
        pack(FrameKind.ANSWER, "x" * 1001),
        pack(FrameKind.ERROR, "x" * SMALL),
        b"E\0\0\x27\x10" + b"[" * 10_000,
    ],
    ids=["unknown", "malformed", "no text", "large answer", "large error", "deep"],
)
def test_what_does_not_fit_is_refused(data):
    with pytest.raises(BrokenFrame):
        read(data)


def test_a_frame_that_breaks_off_is_the_end():
    with pytest.raises(asyncio.IncompleteReadError):
        read(pack(FrameKind.ANSWER, "null")[:-1])


def test_files_travel_with_a_frame(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    ours, theirs = socket.socketpair()
    with ours, theirs, path.open("rb") as file:
        socket.send_fds(ours, [pack(FrameKind.REQUEST, {"a": 1})], [file.fileno()])
        kind, body, (received,) = receive_with_files(theirs)
        assert (kind, body) == (FrameKind.REQUEST, {"a": 1})
        assert os.pread(received, 100, 0) == b"content"
        os.close(received)
