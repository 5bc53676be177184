"""The effect ledger: a separate process that records effects, claims and answers, with fsync.

Workers send a line for every effect, claim and answer of the store over a loopback socket, and
continue only when it is on disk. The ledger does not use the store under test. Times are seconds of
CLOCK_MONOTONIC, which all processes of one machine share, so lines of different processes can be
ordered.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Self

ADDRESS = "CAMPAIGN_LEDGER"
"""The environment variable with the ledger's port."""

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the ledger.

    Args:
        what: `effect`, `claim`, `report`, `progress`, `extend`, `moved` or `worker`.
        job: the job's id; the downstream's name for `moved`.
        token: the attempt's token; the circuit's generation for `moved`.
        attempt: the attempt's number.
        accepted: whether the store accepted it; None if no answer arrived.
        began: when the request was sent, or when the effect happened.
        ended: when the answer arrived.
        worker: the process id of the worker.
        detail: the reported outcome, the new state of the circuit, or the effect.
        permit: generation and trial number of a claim's permit.
    """

    what: str
    job: str
    token: int = 0
    attempt: int = 0
    accepted: bool | None = True
    began: float = 0.0
    ended: float = 0.0
    worker: int = 0
    detail: str = ""
    permit: tuple[int, int | None] | None = None


def decode(text: str) -> Line:
    """Parse a line of the file."""
    fields: dict[str, Any] = dict(zip(Line.__slots__, json.loads(text), strict=True))
    permit = fields.pop("permit")
    return Line(**fields, permit=None if permit is None else (permit[0], permit[1]))


class LedgerClient:
    """A client of the ledger at `port`, with one connection per thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._local = threading.local()

    def record(self, *lines: Line) -> None:
        """Write `lines`; return when they are on disk."""
        if not lines:
            return
        if not hasattr(self._local, "file"):
            with socket.create_connection(("127.0.0.1", self._port)) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._local.file = connection.makefile("rwb")
        file = self._local.file
        file.write(json.dumps([astuple(line) for line in lines]).encode() + b"\n")
        file.flush()
        if file.readline() != b"ok\n":
            raise ConnectionError("the ledger closed the connection")

    def close(self) -> None:
        """Close this thread's connection."""
        if hasattr(self._local, "file"):
            self._local.file.close()
            del self._local.file


class Ledger:
    """The ledger's process and its file, as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._read = 0
        self._lines: list[Line] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "campaigns.ledger", str(self.path)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return
        process.stdin.close()
        process.wait(10)
        process.stdout.close()

    def lines(self) -> list[Line]:
        """Return all lines written so far."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        self._lines += [decode(text) for text in whole.decode().splitlines()]
        return self._lines


class _Server:
    """Appends lines to the file; lines that arrive together share one fsync."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with contextlib.suppress(ConnectionError):
            await self._read(reader, writer)
        writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A killed worker may leave half a message, which is dropped.
        while (message := await reader.readline()).endswith(b"\n"):
            text = "".join(json.dumps(line) + "\n" for line in json.loads(message))
            written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((text.encode(), written))
            self._arrived.set()
            await written
            writer.write(b"ok\n")

    async def write(self) -> None:
        """Write and sync waiting lines until the process ends."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            batch, self._waiting = self._waiting, []
            await asyncio.to_thread(self._append, b"".join(text for text, _ in batch))
            for _, written in batch:
                if not written.done():
                    written.set_result(None)

    def _append(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)


def end_with_parent() -> None:
    """End this process, from a thread, as soon as its standard input is closed."""

    def wait() -> None:
        # os.read, because a thread blocked in sys.stdin holds its lock at interpreter exit.
        while os.read(0, 1024):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


async def _main(path: Path) -> None:
    ledger = _Server(path)
    server = await asyncio.start_server(ledger.serve, "127.0.0.1", 0, limit=2**24)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    end_with_parent()
    await ledger.write()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
