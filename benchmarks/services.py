"""Private Redis and RabbitMQ servers: started on free ports of 127.0.0.1, deleted at the end.

A missing program is installed from its Debian package if `apt-get` and root rights are available.
Every server ends with this process, even if this process is killed. For PostgreSQL use
`tests.support.postgres_server`.
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


def _answers(port: int, request: bytes, answer: bytes) -> bool:
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=1)) as connection:
            connection.sendall(request)
            return connection.recv(64).startswith(answer)
    except OSError:
        return False


@contextmanager
def redis() -> Iterator[int]:
    """Yield the port of a Redis server without persistence.

    Raises:
        Missing: Redis is not installed, or does not start.
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
    """Yield the AMQP port of a single-node RabbitMQ (user and password: guest).

    Raises:
        Missing: RabbitMQ is not installed, or does not start.
    """
    # Debian's wrapper in the PATH works only for the system's own node and user.
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
        # Started explicitly: an epmd that the node starts would outlive it.
        epmd = [find("epmd", "erlang-base"), "-port", str(names), "-address", "127.0.0.1"]
        stack.enter_context(running(epmd, log=log))
        stack.enter_context(running([program], log=log, environment=environment))
        wait_until(lambda: _answers(port, b"AMQP\x00\x00\x09\x01", b"\x01"), "rabbitmq-server", log)
        yield port


def bullmq() -> Path:
    """Return the folder of the BullMQ benchmark, with BullMQ installed.

    Raises:
        Missing: node or npm is not installed, or the package cannot be installed.
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
