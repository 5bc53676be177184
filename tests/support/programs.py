"""Programs that tests and benchmarks start: found, or installed from Debian, and ended with them.

A missing program is installed from its Debian package if `apt-get` and root rights are available.
Every program ends with this process, even if this process is killed.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

_STARTING = 60.0
_STOPPING = 20.0
# The shell ends its child when its standard input is closed, so also when this process dies.
_WATCH = '"$@" & child=$!; cat >/dev/null; kill $child 2>/dev/null; wait $child'


class Missing(RuntimeError):
    """A program is not available on this machine; the message says how to install it."""


def find(program: str, package: str, places: Sequence[str] = ()) -> str:
    """Return the path of `program`; install the Debian `package` if it is missing.

    Raises:
        Missing: it is not installed and cannot be.
    """
    path = _locate(program, places)
    if path is None and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "--yes", "--no-install-recommends", package]
        # The package must not start a server of its own.
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)
        path = _locate(program, places)
    if path is None:
        raise Missing(f"no {program}: install it (Debian: {package})")
    return path


def _locate(program: str, places: Sequence[str]) -> str | None:
    for place in places:
        if Path(place).exists():
            return place
    return shutil.which(program)


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command` while the block runs; then terminate it and wait for its end."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", *command], stdin=subprocess.PIPE, stdout=output,
            stderr=output, cwd=cwd, env={**os.environ, **(environment or {})},
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOPPING)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def wait_until(ready: Callable[[], bool], what: str, log: Path) -> None:
    """Wait until `ready()` is true.

    Raises:
        Missing: it is not within a minute.
    """
    give_up = time.monotonic() + _STARTING
    while not ready():
        if time.monotonic() > give_up:
            raise Missing(f"{what} does not start: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.05)


def answers(port: int, request: bytes, answer: bytes) -> bool:
    """Say whether a server on `port` answers `request` with what begins with `answer`."""
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=1)) as connection:
            connection.sendall(request)
            return connection.recv(64).startswith(answer)
    except OSError:
        return False
