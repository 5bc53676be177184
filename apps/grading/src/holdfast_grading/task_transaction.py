"""One transaction of a Celery task, on a connection that blocks."""

import importlib.util
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import unquote

import apsw

from holdfast.settings import BadSetting

_SQLITE = "sqlite:///"
_BUSY = 30_000
"""Milliseconds that a transaction waits for the writers of other processes."""


def check_driver(url: str) -> None:
    """Refuse a database whose driver is not installed, before a task needs it.

    Raises:
        BadSetting: psycopg is missing.
    """
    if not url.startswith(_SQLITE) and importlib.util.find_spec("psycopg") is None:
        raise BadSetting("PostgreSQL needs psycopg: pip install 'holdfast-grading[celery]'")


@contextmanager
def task_transaction(url: str) -> Iterator[Any]:
    """Yield a connection to the database at `url`, in a transaction that the block's end commits.

    An exception rolls it back.
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
