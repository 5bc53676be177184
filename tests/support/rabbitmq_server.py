"""A private RabbitMQ node on free ports of 127.0.0.1, which can be killed and started again.

It has its own home, cookie, data and name service, so it meets no other node of the machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.support.programs import answers, find, free_port, running, wait_until

__all__ = ["RabbitServer"]

_HELLO = b"AMQP\x00\x00\x09\x01"


class RabbitServer:
    """A single node; user and password are `guest`."""

    def __init__(self) -> None:
        # Debian's wrapper in the PATH works only for the system's own node and user.
        self._program = find(
            "rabbitmq-server", "rabbitmq-server", ["/usr/lib/rabbitmq/bin/rabbitmq-server"]
        )
        self._epmd = find("epmd", "erlang-base")
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-rabbitmq-"))
        self._log = self._folder / "log"
        self._names, self._cluster = free_port(), free_port()
        self._services = ExitStack()
        self._node = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def url(self, password: str = "guest") -> str:
        """Return the node's address."""
        return f"amqp://guest:{password}@127.0.0.1:{self.port}/"

    def __enter__(self) -> Self:
        self._prepare()
        try:
            # Started explicitly: an epmd that the node starts would outlive it.
            epmd = [self._epmd, "-port", str(self._names), "-address", "127.0.0.1"]
            self._services.enter_context(running(epmd, log=self._log))
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start, and return once connections are accepted; a stopped node keeps data and port.

        Raises:
            Missing: it does not start.
        """
        self._process = self._node.enter_context(
            running([self._program], log=self._log, environment=self._environment())
        )
        wait_until(lambda: answers(self.port, _HELLO, b"\x01"), "rabbitmq-server", self._log)

    def stop(self) -> None:
        """Shut down cleanly; data and port are kept."""
        self._node.close()

    def kill(self) -> None:
        """End the node with SIGKILL."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._node.close()

    def close(self) -> None:
        """Stop and delete everything."""
        self._node.close()
        self._services.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self) -> None:
        (self._folder / "rabbit.conf").write_text(f"listeners.tcp.local = 127.0.0.1:{self.port}\n")
        (self._folder / "plugins").write_text("[].\n")

    def _environment(self) -> dict[str, str]:
        return {
            "HOME": str(self._folder),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._cluster),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbit.conf"),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
