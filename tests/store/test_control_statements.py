"""Which statements begin or end a transaction, alone and among several in one text."""

import time

import pytest

from holdfast.jobs.exceptions import ContextError
from holdfast.store.control_statements import refuse_control

DIALECTS = ["postgresql", "sqlite"]
CONTROL = [
    "COMMIT", "commit;", "End Transaction", "ROLLBACK", "rollback work", "ABORT", "BEGIN IMMEDIATE",
    "START TRANSACTION", "PREPARE TRANSACTION 'later'", " ;\n/* SAVEPOINT */-- no\n\tCOMMIT",
    "ROLLBACK AND CHAIN", "PREPARE/**/TRANSACTION 'later'", "/* a */COMMIT", "rollback work;",
]  # fmt: skip
OTHER = [
    "", ";", "SELECT 'COMMIT'", "SAVEPOINT here", "RELEASE here", "ROLLBACK TO here",
    "rollback transaction\nto savepoint here", "-- COMMIT", "-- -- -- COMMIT", "/* COMMIT */",
    "ends", "PREPARE again AS SELECT 1", "SET TRANSACTION READ ONLY", "ROLLBACK /* */ TO/**/here",
    "rollback work to here", "/* a", '"COMMIT"', "/*/ COMMIT */",
]  # fmt: skip
SEVERAL = [
    "SELECT 1; ROLLBACK; BEGIN",
    "SELECT ';' ; -- ;\nCOMMIT",
    "SAVEPOINT a; ;END",
    "SELECT 1; /* /* */ COMMIT",
    "SELECT ''';', \"a\", [b'], `c\"`; COMMIT",
    "CREATE TEMP TRIGGER a AFTER INSERT ON b BEGIN DELETE FROM c; END; COMMIT",
]
ONE = [
    "SELECT '; COMMIT'",
    "SELECT '''; COMMIT', \"; COMMIT\", [; COMMIT], `; COMMIT`",
    "SELECT 1 /* ; COMMIT */",
    "SELECT 1 -- ; COMMIT",
    "SELECT 1; /* COMMIT",
    "SELECT 1; SELECT CASE WHEN 1 THEN 2 END;",
    "CREATE TRIGGER a AFTER INSERT ON b BEGIN DELETE FROM c; END",
    "CREATE TRIGGER a AFTER INSERT ON b BEGIN UPDATE c SET d = CASE WHEN 1 THEN 2 END; END;",
    "CREATE TEMPORARY TRIGGER a AFTER INSERT ON b BEGIN SELECT ';' ; /* */ END ; SELECT 1",
]
REPEATED = [
    "SELECT ';/*", "SELECT 1;--", "SELECT 1;/*", ";", "; ", "/*", "/**/", "a ", ";'a'", ";'",
    "; END_",
]  # fmt: skip
"""Some end in the middle of a comment or of a literal."""


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("sql", CONTROL)
def test_a_statement_that_controls_a_transaction_is_refused(sql, dialect):
    with pytest.raises(ContextError, match="is refused"):
        refuse_control(sql, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("sql", OTHER + ONE)
def test_any_other_statement_is_not(sql, dialect):
    refuse_control(sql, dialect)


@pytest.mark.parametrize("sql", SEVERAL)
def test_it_is_found_among_several_statements(sql):
    with pytest.raises(ContextError, match="is refused"):
        refuse_control(sql, "sqlite")


@pytest.mark.parametrize("inner", ["b", "/* b */ c", "/**//*/* b */ c*/"])
def test_a_statement_after_nested_comments_is_refused(inner):
    with pytest.raises(ContextError, match="COMMIT is refused"):
        refuse_control(f"/* a /* {inner} */ c */ COMMIT", "postgresql")


def test_block_comments_nest_on_postgresql_only():
    refuse_control("/* a /* b */ COMMIT", "postgresql")
    with pytest.raises(ContextError, match="COMMIT is refused"):
        refuse_control("/* a /* b */ COMMIT", "sqlite")


def test_a_carriage_return_ends_a_line_comment_on_postgresql_only():
    with pytest.raises(ContextError, match="COMMIT is refused"):
        refuse_control("-- a\rCOMMIT", "postgresql")
    refuse_control("-- a\rCOMMIT", "sqlite")


def test_sqlite_takes_a_byte_order_mark_for_a_space():
    with pytest.raises(ContextError, match="COMMIT is refused"):
        refuse_control("\ufeffCOMMIT", "sqlite")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("text", REPEATED)
def test_a_long_text_takes_no_longer_than_it_is_long(text, dialect):
    """Sixteen times as long: with the square of the length it would take 256 times as long."""
    assert seconds(text * 16_000, dialect) < 64 * max(seconds(text * 1_000, dialect), 1e-6)


def seconds(sql, dialect):
    """Return the shortest time of several: what else the machine does can only add to it."""
    times = []
    for _ in range(5):
        begin = time.thread_time()
        refuse_control(sql, dialect)
        times.append(time.thread_time() - begin)
    return min(times)
