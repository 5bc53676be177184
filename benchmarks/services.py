"""Private servers for peers: started on free ports of 127.0.0.1, deleted at the end.

A program is taken from this machine, or from Debian's package where `apt-get` and root are there.
Whatever is started ends with this process, however that one ends. For PostgreSQL there is
`holdfast.testing.postgres`.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

_STARTING = 60.0
_STOPPING = 20.0
# The shell outlives this process only until it sees its standard input closed.
_WATCH = '"$@" & child=$!; cat >/dev/null; kill $child 2>/dev/null; wait $child'


class Missing(RuntimeError):
    """Something cannot be had on this machine; the message says what and how to get it."""


def find(program: str, package: str, places: Sequence[str] = ()) -> str:
    """Return the path of `program`, installing Debian's `package` where that can be done.

    Raises:
        Missing: it cannot be had.
    """
    path = _look(program, places)
    if path is None and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "--yes", "--no-install-recommends", package]
        # The package must not start a server of its own.
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)
        path = _look(program, places)
    if path is None:
        raise Missing(f"no {program}: install it (Debian: {package})")
    return path


def _look(program: str, places: Sequence[str]) -> str | None:
    for place in places:
        if Path(place).exists():
            return place
    return shutil.which(program)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
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
    """Run `command` beside this process; it is asked to end, and waited for, at the end."""
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
    """Return once `ready` says so.

    Raises:
        Missing: it does not within a minute.
    """
    give_up = time.monotonic() + _STARTING
    while not ready():
        if time.monotonic() > give_up:
            raise Missing(f"{what} does not start: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.05)


def _answers(port: int, question: bytes, answer: bytes) -> bool:
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=1)) as connection:
            connection.sendall(question)
            return connection.recv(64).startswith(answer)
    except OSError:
        return False


@contextmanager
def redis() -> Iterator[int]:
    """Yield the port of a Redis that keeps everything in memory and writes nothing to disk.

    Raises:
        Missing: there is no Redis, or it does not start.
    """
    program = find("redis-server", "redis-server")
    with tempfile.TemporaryDirectory() as folder:
        port, log = free_port(), Path(folder) / "log"
        command = [
            program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly",
            "no", "--dir", folder, "--maxmemory-policy", "noeviction",
        ]  # fmt: skip
        with running(command, log=log):
            wait_until(lambda: _answers(port, b"PING\r\n", b"+PONG"), "redis-server", log)
            yield port


@contextmanager
def rabbitmq() -> Iterator[int]:
    """Yield the AMQP port of a RabbitMQ of one node, guest/guest.

    Raises:
        Missing: there is no RabbitMQ, or it does not start.
    """
    # Debian's wrapper in the PATH insists on the machine's own node and its user.
    program = find("rabbitmq-server", "rabbitmq-server", ["/usr/lib/rabbitmq/bin/rabbitmq-server"])
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home, log = Path(folder), Path(folder) / "log"
        port, names, cluster = free_port(), free_port(), free_port()
        (home / "rabbit.conf").write_text(f"listeners.tcp.local = 127.0.0.1:{port}\n")
        environment = {
            "HOME": folder,
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_DIST_PORT": str(cluster),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbit.conf"),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        (home / "plugins").write_text("[].\n")
        # Started here, for the node would leave one of its own behind.
        epmd = [find("epmd", "erlang-base"), "-port", str(names), "-address", "127.0.0.1"]
        stack.enter_context(running(epmd, log=log))
        stack.enter_context(running([program], log=log, environment=environment))
        wait_until(lambda: _answers(port, b"AMQP\x00\x00\x09\x01", b"\x01"), "rabbitmq-server", log)
        yield port


def bullmq() -> Path:
    """Return the folder with BullMQ installed beside its benchmark.

    Raises:
        Missing: there is no node or npm, or the package cannot be installed.
    """
    folder = Path(__file__).parent / "bullmq"
    find("node", "nodejs")
    npm = find("npm", "npm")
    if not (folder / "node_modules" / "ioredis").exists():
        command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"npm install of bullmq failed: {done.stderr.strip()[-300:]}")
    return folder
