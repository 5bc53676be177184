"""Which statements begin or end a transaction, alone and among several in one text."""

import apsw
import pytest

from holdfast.jobs.exceptions import ContextError
from holdfast.store.control_statements import refuse_control

CONTROL = [
    "COMMIT", "commit;", "End Transaction", "ROLLBACK", "rollback work", "ABORT", "BEGIN IMMEDIATE",
    "START TRANSACTION", "PREPARE TRANSACTION 'later'", " ;\n/* SAVEPOINT */-- no\n\tCOMMIT",
    "ROLLBACK AND CHAIN",
]  # fmt: skip
OTHER = [
    "", ";", "SELECT 'COMMIT'", "SAVEPOINT here", "RELEASE here", "ROLLBACK TO here",
    "rollback transaction\nto savepoint here", "-- COMMIT", "-- -- -- COMMIT", "/* COMMIT */",
    "ends", "PREPARE again AS SELECT 1", "SET TRANSACTION READ ONLY",
]  # fmt: skip
SEVERAL = ["SELECT 1; ROLLBACK; BEGIN", "SELECT ';' ; -- ;\nCOMMIT", "SAVEPOINT a; ;END"]
ONE = [
    "SELECT '; COMMIT'",
    "SELECT 1 /* ; COMMIT */",
    "SELECT 1 -- ; COMMIT",
    "SELECT 1; SELECT CASE WHEN 1 THEN 2 END;",
    "CREATE TRIGGER a AFTER INSERT ON b BEGIN DELETE FROM c; END",
]


@pytest.mark.parametrize("sql", CONTROL)
def test_a_statement_that_controls_a_transaction_is_refused(sql):
    with pytest.raises(ContextError, match="is refused"):
        refuse_control(sql)


@pytest.mark.parametrize("sql", OTHER + ONE)
def test_any_other_statement_is_not(sql):
    refuse_control(sql)
    refuse_control(sql, apsw.complete)


@pytest.mark.parametrize("sql", CONTROL + SEVERAL)
def test_it_is_found_among_several_statements(sql):
    with pytest.raises(ContextError, match="is refused"):
        refuse_control(sql, apsw.complete)


def test_a_long_text_takes_no_longer_than_it_is_long():
    """Values in the text instead of parameters; some end in the middle of a comment."""
    refuse_control("-- " * 100_000 + "\n" + "SELECT '" + "; x" * 100_000 + "'", apsw.complete)
