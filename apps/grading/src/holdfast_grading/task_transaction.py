"""One transaction of a Celery task, on a connection that blocks."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import unquote

import apsw

_SQLITE = "sqlite:///"
_BUSY = 30_000
"""Milliseconds that a transaction waits for the writers of other processes."""


@contextmanager
def task_transaction(url: str) -> Iterator[Any]:
    """Yield a connection to the database at `url`, in a transaction that the block's end commits.

    An exception rolls it back.

    Raises:
        ModuleNotFoundError: psycopg is not installed.
    """
    if not url.startswith(_SQLITE):
        import psycopg

        with psycopg.connect(url) as connection:
            yield connection
        return
    with closing(apsw.Connection(unquote(url.removeprefix(_SQLITE)))) as connection:
        connection.set_busy_timeout(_BUSY)
        # A transaction that begins with a read fails if another process writes meanwhile.
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
