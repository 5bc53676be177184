"""PgBouncer in transaction mode before a PostgreSQL server, for tests.

It is Debian's package, installed where `apt-get` and root are available. It listens on 127.0.0.1
and ends with the process that started it, even if that is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit, urlunsplit

from tests.support.postgres_server import (
    PostgresMissing,
    PostgresServer,
    _free_port,
    _identity,
    _is_taken,
    _owner_group,
    server_user,
)

__all__ = ["PgBouncer", "find_pgbouncer"]

_STARTING = 30.0
# The shell outlives this process only until it sees its standard input closed.
_WATCH = '"$@" & pooler=$!; cat >/dev/null; kill -TERM $pooler 2>/dev/null; wait $pooler'
_CONFIGURATION = """\
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 20
max_client_conn = 200
server_round_robin = 1
server_login_retry = 1
"""


def find_pgbouncer(*, install: bool = True) -> str:
    """Return the path of the program; `install` allows Debian's package.

    Raises:
        PostgresMissing: there is none.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"  # where Debian has it
    if shutil.which("pgbouncer", path=path) is None and install and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        words = ["apt-get", "install", "--yes", "--no-install-recommends", "pgbouncer"]
        for command in (words, ["apt-get", "update"], words):
            if shutil.which("apt-get") and shutil.which("pgbouncer", path=path) is None:
                subprocess.run(
                    command, env=environment, capture_output=True, check=False, timeout=600
                )
    found = shutil.which("pgbouncer", path=path)
    if found is None:
        raise PostgresMissing("no pgbouncer (Debian: pgbouncer)")
    return found


class PgBouncer:
    """A pooler before `server`; its sessions take turns, so nothing stays in one by chance."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = urlsplit(server.url())
        self.port = _free_port()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str) -> str:
        """Return the address of `database` through the pooler."""
        account, _, _ = self._server.netloc.rpartition("@")
        netloc = f"{account}@127.0.0.1:{self.port}"
        return urlunsplit(self._server._replace(netloc=netloc, path=f"/{database}"))

    def start(self) -> None:
        """Start, and return once connections are accepted.

        Raises:
            PostgresMissing: there is no pooler.
        """
        program = find_pgbouncer()
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-pgbouncer-"))
        self._write()
        with (self._folder / "log").open("wb") as log:
            self._watcher = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", program, str(self._folder / "configuration")],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **_identity(),
            )
        ends_at = time.monotonic() + _STARTING
        while not _is_taken(self.port):
            if time.monotonic() > ends_at:
                log_text = self.log()
                self.close()
                raise PostgresMissing(f"pgbouncer does not start:\n{log_text}")
            time.sleep(0.02)

    def close(self) -> None:
        """Stop."""
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait(_STARTING)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """Return the pooler's log."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def _write(self) -> None:
        user, password = self._server.username or "", unquote(self._server.password or "")
        texts = {
            "users": f'"{user}" "{password}"\n',
            "configuration": _CONFIGURATION.format(
                host=self._server.hostname,
                port=self._server.port or 5432,
                own_port=self.port,
                folder=self._folder,
            ),
        }
        for name, text in texts.items():
            (self._folder / name).write_text(text, encoding="utf-8")
        if server_user() is not None:
            for path in (self._folder, *self._folder.iterdir()):
                shutil.chown(path, server_user(), _owner_group())
