"""One transaction of a Celery task, on a connection that blocks."""

import importlib.util
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import unquote

import apsw

from holdfast import SystemClock
from holdfast.settings import BadSetting
from holdfast_grading.tables import SERVER_TIME

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


def store_time(url: str) -> float:
    """Return the time that decides deadlines, in epoch seconds: the database server's, if any."""
    if url.startswith(_SQLITE):
        return SystemClock().wall()
    with task_transaction(url) as connection:
        ((now,),) = connection.execute(SERVER_TIME)
    return float(now)


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
