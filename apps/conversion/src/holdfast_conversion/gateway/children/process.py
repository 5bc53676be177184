"""The parent's side of one child process."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping as Fields
from typing import Any

from holdfast_conversion.gateway.children.wire import MESSAGE_BYTES, TAKEN
from holdfast_conversion.gateway.formats import Mapping
from holdfast_conversion.gateway.refusals import Reason, Refusal
from holdfast_conversion.gateway.settings import Limits

_START_SECONDS = 60.0
_FROM_CHILD = frozenset(
    {
        Reason.EMPTY,
        Reason.NOT_PDF,
        Reason.DAMAGED,
        Reason.ENCRYPTED,
        Reason.CRASHED,
        Reason.OUT_OF_MEMORY,
        Reason.TOO_MANY_PAGES,
        Reason.OUTPUT_TOO_LARGE,
        Reason.STORAGE,
    }
)
"""What a child may say; anything else is taken for a crash."""
_SPENT = frozenset({Reason.CRASHED, Reason.OUT_OF_MEMORY})
"""After these a child is not trusted with another file."""


class ChildLost(Exception):
    """A child could not be started, or was gone before it took a file."""


class ChildProcess:
    """One child, from its start to its end. It converts one file at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files = 0
        self._spent = False
        self.confined = False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._connection = ours
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [
                    sys.executable,
                    "-m",
                    "holdfast_conversion.gateway.children.child",
                    str(theirs.fileno()),
                    json.dumps(_wire(limits)),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            )

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether another file may be given to it."""
        return not self._spent and self._process.poll() is None

    async def ready(self) -> None:
        """Wait until the child has loaded what it needs and given up the rest.

        Raises:
            ChildLost: it did not get that far.
        """
        try:
            async with asyncio.timeout(_START_SECONDS):
                fields = _fields(await self._receive())
        except (TimeoutError, OSError, ValueError, RecursionError) as error:
            self.kill()
            raise ChildLost(f"a child process did not start: {error!r}") from None
        self.confined = fields.get("confined") is True

    async def convert(self, source: int, mapping: Mapping, target: int) -> None:
        """Convert the file behind the descriptor `source` into the one behind `target`.

        Raises:
            Refusal: there is no XML; the reason says why.
            ChildLost: the child was gone before it took the file; another may.
        """
        self._files += 1
        self._spent = True  # until it has answered
        message = json.dumps({"mapping": mapping}).encode()
        try:
            async with asyncio.timeout(self._limits.wall_seconds):
                await self._hand_over(message, source, target)
                answer = await self._receive()
        except TimeoutError:
            self.kill()
            raise Refusal(Reason.SLOW, f"pid {self.pid}") from None
        if not answer:
            raise self._post_mortem()
        self._judge(answer, target)

    def kill(self) -> None:
        """End the child and all it may have started, at once."""
        self._spent = True
        self._connection.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    async def _hand_over(self, message: bytes, source: int, target: int) -> None:
        try:
            socket.send_fds(self._connection, [message], [source, target])
            taken = await self._receive()
        except OSError as error:
            raise ChildLost(repr(error)) from None
        if taken != TAKEN:
            raise ChildLost("it was gone before it took the file")

    async def _receive(self) -> bytes:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionResetError):
            return await loop.sock_recv(self._connection, MESSAGE_BYTES)
        return b""

    def _judge(self, answer: bytes, target: int) -> None:
        try:
            fields = _fields(answer)
            reason = None if fields["reason"] is None else Reason(fields["reason"])
        except (ValueError, KeyError, RecursionError):
            raise Refusal(Reason.CRASHED, "the child spoke nonsense") from None
        if reason is not None and reason not in _FROM_CHILD:
            raise Refusal(Reason.CRASHED, f"the child claimed {reason}")
        self._spent = reason in _SPENT or self._files >= self._limits.files
        if reason is not None:
            raise Refusal(reason, str(fields.get("detail", "")))
        if os.fstat(target).st_size > self._limits.caps.output_bytes:
            raise Refusal(Reason.OUTPUT_TOO_LARGE)

    def _post_mortem(self) -> Refusal:
        """Say what the child died of."""
        self.kill()
        status = self._process.returncode
        if status == -signal.SIGXCPU:
            return Refusal(Reason.OUT_OF_CPU)
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        if status == -signal.SIGTERM:
            # Nothing in a file sends this one: somebody wanted the child gone.
            return Refusal(Reason.STOPPED, name)
        if status == -signal.SIGKILL:
            # Whom we kill is judged elsewhere: this was Linux, where memory runs out, or a person.
            return Refusal(Reason.KILLED, name)
        return Refusal(Reason.CRASHED, name)


def _wire(limits: Limits) -> dict[str, int]:
    return {
        "memory_bytes": limits.memory_bytes,
        "cpu_seconds": limits.cpu_seconds,
        "pages": limits.caps.pages,
        "output_bytes": limits.caps.output_bytes,
    }


def _environment() -> dict[str, str]:
    """Hand on where modules are found, and no secret that the environment may hold."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _fields(answer: bytes) -> Fields[str, Any]:
    fields = json.loads(answer)
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    return fields
