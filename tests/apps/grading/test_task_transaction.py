"""The transaction of a Celery task on SQLite; that on PostgreSQL is psycopg's own."""

import apsw
import pytest

from holdfast_grading.task_transaction import task_transaction


@pytest.fixture
def url(tmp_path):
    path = tmp_path / "a work.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE grades (score REAL)")
    connection.close()
    return f"sqlite:///{tmp_path}/a%20work.db"


def scores(url):
    with task_transaction(url) as connection:
        return connection.execute("SELECT score FROM grades").fetchall()


def fail_in_transaction(url):
    with task_transaction(url) as connection:
        connection.execute("INSERT INTO grades VALUES (8)")
        connection.execute("INSERT INTO others VALUES (8)")


def test_the_end_of_the_block_commits_and_an_exception_rolls_back(url):
    with task_transaction(url) as connection:
        connection.execute("INSERT INTO grades VALUES (7)")
    with pytest.raises(apsw.SQLError, match="no such table"):
        fail_in_transaction(url)
    assert scores(url) == [(7.0,)]


def test_no_other_process_writes_between_its_first_read_and_its_write(url):
    with task_transaction(url) as connection:
        assert connection.execute("SELECT count(*) FROM grades").fetchall() == [(0,)]
        other = apsw.Connection(str(connection.filename))
        with pytest.raises(apsw.BusyError):
            other.execute("INSERT INTO grades VALUES (9)")
        other.close()
        connection.execute("INSERT INTO grades VALUES (7)")
    assert scores(url) == [(7.0,)]
