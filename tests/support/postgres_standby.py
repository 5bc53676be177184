"""A streaming standby of a private server, asynchronous or synchronous, which can take over."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from tests.support.postgres_server import PostgresMissing, PostgresServer, _identity

__all__ = ["Standby"]

_SOON = 60.0


class Standby(PostgresServer):
    """A copy of `primary`, which must run and be private.

    It has the same settings and receives commits asynchronously, unless `require` is called.
    """

    def __init__(self, primary: PostgresServer) -> None:
        # By default it would look for its primary only every 5 s.
        settings = {**primary._settings, "wal_retrieve_retry_interval": "200ms"}
        super().__init__(settings=settings)
        self._primary = primary
        self._password = primary._password

    def _create_cluster(self) -> None:
        assert self._binaries is not None
        self._own_folder()
        done = subprocess.run(
            [
                self._binaries / "pg_basebackup",
                "--pgdata", self._data,
                "--dbname", self._primary.url(),
                "--checkpoint=fast",
                "--write-recovery-conf",
                "--no-sync",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
            **_identity(),
        )  # fmt: skip
        if done.returncode:
            raise PostgresMissing(f"pg_basebackup failed: {done.stderr.strip()}")

    def require(self) -> None:
        """Make the primary acknowledge no commit before it is written here as well."""
        self._primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self._primary.execute("SELECT pg_reload_conf()")
        self.wait_until_required()

    def wait_until_required(self) -> None:
        """Wait until the primary, which may have been restarted, has found this standby again."""
        states = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        _until(lambda: self._primary.execute(states)[0][0] == 1)

    def stop_receiving(self) -> None:
        """Apply all commits of the primary until now, and receive none of those that follow."""
        written = self._primary.execute("SELECT pg_current_wal_flush_lsn()::text")[0][0]
        applied = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
        _until(lambda: self.execute(applied)[0][0])
        self.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.execute("SELECT pg_reload_conf()")
        senders = "SELECT count(*) FROM pg_stat_replication"
        _until(lambda: self._primary.execute(senders)[0][0] == 0)

    def take_over(self) -> None:
        """End the primary, and continue in its place, on its port."""
        self._primary.kill()
        self.stop()
        self.port = self._primary.port
        self.start()
        assert self.execute("SELECT pg_promote()") == [(True,)]


def _until(fact: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + _SOON
    while not fact():
        assert time.monotonic() < ends_at, "the standby does not follow"
        time.sleep(0.01)
