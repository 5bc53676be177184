"""A private PostgreSQL server for tests and benchmarks: started on a free port, deleted at the end.

In this order: the URL in `HOLDFAST_TEST_POSTGRES_URL`, the binaries in the folder
`HOLDFAST_TEST_POSTGRES_BIN`, an installed server, Debian's package if `apt-get` and root are
available. A private server listens on 127.0.0.1 only, keeps its data in a
temporary folder and ends with the process that started it, even if that is killed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from tests.support.processes import children_of

__all__ = ["BINARIES", "ENVIRONMENT", "PostgresMissing", "PostgresServer", "find_binaries"]

ENVIRONMENT = "HOLDFAST_TEST_POSTGRES_URL"
"""The variable that names a server to use in place of a private one."""

BINARIES = "HOLDFAST_TEST_POSTGRES_BIN"
"""The variable that names the folder with the programs to use, `postgres` and others."""

_INSTALLED = Path("/usr/lib/postgresql")
_MEMORY = Path("/dev/shm")
_ROOM = 2 * 1024**3
_USER = "holdfast"
_STARTING = 60.0
_STOPPING = 30.0
_RELAUNCH = 1.0
# The shell outlives this process only until it sees its standard input closed.
_WATCH = '"$@" & server=$!; cat >/dev/null; kill -QUIT $server 2>/dev/null; wait $server'


class PostgresMissing(RuntimeError):
    """There is no server on this machine; the message says how to get one."""


def find_binaries(*, install: bool = True) -> Path:
    """Return the folder with `initdb` and `postgres`; `install` allows Debian's package.

    Raises:
        PostgresMissing: there is none.
    """
    if chosen := os.environ.get(BINARIES):
        if not (Path(chosen) / "postgres").exists():
            raise PostgresMissing(f"{BINARIES}: there is no postgres in {chosen}")
        return Path(chosen)
    found = _installed_binaries()
    if found is None and install and os.geteuid() == 0 and shutil.which("apt-get"):
        found = _from_debian()
    if found is None:
        raise PostgresMissing(
            f"no PostgreSQL: set {ENVIRONMENT}, or install the server (Debian: postgresql)"
        )
    return found


def _from_debian() -> Path | None:
    install = ["apt-get", "install", "--yes", "--no-install-recommends", "postgresql"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # The package list of a fresh machine is empty or old.
    for command in (install, ["apt-get", "update"], install):
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)
        if found := _installed_binaries():
            return found
    return None


def _installed_binaries() -> Path | None:
    versions = sorted(
        _INSTALLED.glob("*/bin"), key=lambda folder: _number(folder.parent.name), reverse=True
    )
    on_path = shutil.which("postgres")
    candidates = [*versions, *([Path(on_path).resolve().parent] if on_path else [])]
    for folder in candidates:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    return None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class PostgresServer:
    """A server to test with. Use it as a context manager, or call `start` and `close`.

    Args:
        fsync: whether commits are flushed to disk; False is faster and still survives `kill`. The
            data is then in memory (`/dev/shm`), if there are 2 GiB free.
        settings: further settings by name, such as `max_connections`.
        binaries: the folder with the programs of a private server; by default what is found.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        settings: dict[str, str] | None = None,
        binaries: Path | None = None,
    ) -> None:
        self._settings = {
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "100",
            "shared_buffers": "256MB",
            **(settings or {}),
        }
        self._external = None if binaries else os.environ.get(ENVIRONMENT) or None
        self._folder: Path | None = None
        self._binaries = binaries
        self._watcher: subprocess.Popen[bytes] | None = None
        self._password = secrets.token_hex(8)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self.port = 0

    @property
    def private(self) -> bool:
        """Whether this object started the server and may stop, restart and kill it."""
        return self._external is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres") -> str:
        """Return the address of `database`, password included."""
        if self._external is not None:
            parts = urlsplit(self._external)
            return urlunsplit(parts._replace(path=f"/{database}"))
        return f"postgresql://{_USER}:{quote(self._password)}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, and return once connections are accepted; a stopped server keeps data and port.

        Raises:
            PostgresMissing: there is no server.
        """
        if self._external is not None:
            self.execute("SELECT 1")
            return
        if self._folder is None:
            self._binaries = self._binaries or find_binaries()
            in_memory = self._settings["fsync"] == "off" and _has_room(_MEMORY)
            parent = _MEMORY if in_memory else None
            self._folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=parent))
            self._create_cluster()
        if self._watcher is not None and self._postmaster() is not None:
            return
        self._launch()
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Shut down cleanly, closing all connections."""
        self._signal(signal.SIGINT)
        self._reap()

    def kill(self) -> None:
        """End the server and its children with SIGKILL.

        Written data stays in the operating system's cache: this does not simulate a power loss.
        """
        pid = self._postmaster()
        for each in (pid, *children_of(pid)) if pid else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._reap()

    def restart(self) -> None:
        """Stop and start again, on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop and delete everything. Closing twice is harmless."""
        self._disconnect()
        if self._external is not None or self._folder is None:
            return
        self._signal(signal.SIGQUIT)
        self._reap()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def create_database(self, template: str | None = None, *, characters: str | None = None) -> str:
        """Create a database and return its name.

        It is empty or a copy of `template`; `characters` is the locale that says what a letter is.
        """
        name = f"t_{secrets.token_hex(8)}"
        # Without fsync, copying the files takes a third less than logging every page of them.
        copied = f" TEMPLATE {template} STRATEGY file_copy" if template else ""
        locale = f" TEMPLATE template0 LC_CTYPE '{characters}'" if characters else ""
        self.execute(f"CREATE DATABASE {name}{copied}{locale}")
        return name

    def drop_database(self, name: str) -> None:
        """Delete a database, closing all connections to it."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, sql: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own and return its rows."""
        statement = sql.encode()
        if database is not None:
            with psycopg.connect(self.url(database), autocommit=True) as connection:
                return _rows(connection.execute(statement))
        try:
            return _rows(self._maintenance().execute(statement))
        except psycopg.OperationalError:
            if self._connection is None or not self._connection.broken:
                raise
            # It was open while the server was stopped, killed or failed over.
            self._disconnect()
            return _rows(self._maintenance().execute(statement))

    def _maintenance(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return the connection that is kept: tests create and drop a thousand databases."""
        if self._connection is None:
            url = self._external if self._external is not None else self.url()
            self._connection = psycopg.connect(url, autocommit=True, connect_timeout=5)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def log(self) -> str:
        """Return the server's log."""
        path = self._folder / "log" if self._folder else None
        return path.read_text(encoding="utf-8", errors="replace") if path else ""

    def _create_cluster(self) -> None:
        assert self._folder is not None
        assert self._binaries is not None
        password_file = self._folder / "password"
        password_file.write_text(self._password, encoding="utf-8")
        self._own_folder(password_file)
        arguments = [
            "--auth=scram-sha-256",
            f"--pwfile={password_file}",
            "--encoding=UTF8",
            "--locale=C",
        ]
        done = subprocess.run(
            [self._binaries / "initdb", "-D", self._data, "-U", _USER, "--no-sync", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
            **_identity(),
        )
        if done.returncode:
            raise PostgresMissing(f"initdb failed: {done.stderr.strip()}")

    def _own_folder(self, *files: Path) -> None:
        assert self._folder is not None
        if server_user() is not None:
            for path in (self._folder, *files):
                shutil.chown(path, server_user(), _owner_group())

    @property
    def _data(self) -> Path:
        assert self._folder is not None
        return self._folder / "data"

    def _launch(self) -> None:
        assert self._folder is not None
        assert self._binaries is not None
        taken = self._watcher is None and _is_taken(self.port)
        if not self.port or taken:
            self.port = _free_port()
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        server = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        with (self._folder / "log").open("ab") as log:
            self._watcher = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", *server, *settings],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
                **_identity(),
            )

    def _wait_until_it_answers(self) -> None:
        give_up = time.monotonic() + _STARTING
        relaunch = time.monotonic() + _RELAUNCH
        while True:
            try:
                self.execute("SELECT 1")
                return
            except Exception as error:
                now = time.monotonic()
                if now > give_up:
                    raise PostgresMissing(f"the server does not start:\n{self.log()}") from error
                if self._postmaster() is None and now > relaunch:
                    # Another process took the port, or the killed server has not ended yet.
                    self._reap()
                    self._launch()
                    relaunch = now + _RELAUNCH
                time.sleep(0.02)

    def _postmaster(self) -> int | None:
        try:
            first = (self._data / "postmaster.pid").read_text(encoding="ascii").splitlines()[0]
            os.kill(int(first), 0)
        except (OSError, ValueError, IndexError):
            return None
        return int(first)

    def _signal(self, number: signal.Signals) -> None:
        pid = self._postmaster()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap(self) -> None:
        give_up = time.monotonic() + _STOPPING
        while self._postmaster() is not None and time.monotonic() < give_up:
            time.sleep(0.01)
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            assert watcher.stdin is not None
            watcher.stdin.close()
            watcher.wait(_STOPPING)


def _rows(done: psycopg.Cursor[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [] if done.description is None else done.fetchall()


def _has_room(folder: Path) -> bool:
    return folder.is_dir() and shutil.disk_usage(folder).free >= _ROOM


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return bool(port) and probe.connect_ex(("127.0.0.1", port)) == 0


def server_user() -> str | None:
    """Return the user to run the server as, since PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            return name
    raise PostgresMissing("PostgreSQL does not run as root, and there is no user to run it as")


def _owner_group() -> int:
    import pwd

    return pwd.getpwnam(server_user() or "root").pw_gid


def _identity() -> dict[str, Any]:
    user = server_user()
    return {"user": user, "group": _owner_group(), "extra_groups": []} if user else {}
