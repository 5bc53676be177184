"""The commands and pictures of the tutorial are correct."""

import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tutorial/conversion.md"
COMMANDS = sorted(set(re.findall(r"\.venv/bin/holdfast (gateway chaos [^`\n]+)", PAGE.read_text())))
IMAGES = sorted((PAGE.parent / "images").iterdir())


def test_there_are_commands_and_pictures():
    assert len(COMMANDS) >= 6
    tutorials = "".join(page.read_text() for page in PAGE.parent.glob("*.md"))
    assert {path.name for path in IMAGES} == set(re.findall(r"\]\(images/([^)]+)\)", tutorials))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(command):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        words = [*command.split(), "--port", str(probe.getsockname()[1])]
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert done.returncode == 1, done.stderr
    assert "nothing answers on port" in done.stderr


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_every_picture_is_small_and_has_no_metadata(path):
    data = path.read_bytes()

    assert len(data) < 150_000
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert kinds_of_chunks(data) <= {b"IHDR", b"IDAT", b"IEND", b"sRGB", b"sBIT", b"pHYs"}


def kinds_of_chunks(data):
    at, found = 8, set()
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        found.add(data[at + 4 : at + 8])
        at += 12 + length
    return found
