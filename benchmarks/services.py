"""Private Redis and RabbitMQ servers: started on free ports of 127.0.0.1, deleted at the end.

For PostgreSQL use `tests.support.postgres_server`.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.programs import Missing, answers, find, free_port, running, wait_until
from tests.support.rabbitmq_server import RabbitServer


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
            wait_until(lambda: answers(port, b"PING\r\n", b"+PONG"), "redis-server", log)
            yield port


@contextmanager
def rabbitmq() -> Iterator[int]:
    """Yield the AMQP port of a single-node RabbitMQ (user and password: guest).

    Raises:
        Missing: RabbitMQ is not installed, or does not start.
    """
    with RabbitServer() as server:
        yield server.port


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
