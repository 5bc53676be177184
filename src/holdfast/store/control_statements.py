"""Statements that would begin or end a transaction, which the block that began it ends itself.

The rows of the block would be committed without the job or the completion that belongs to them, or
be lost without an error. Savepoints are allowed: they change nothing beyond the transaction.
"""

import re
from collections.abc import Callable

from holdfast.jobs.exceptions import ContextError

_CONTROL = re.compile(
    r"""
    (?> [\s;] | --[^\n]*+ | /\*.*?\*/ )*+
    ( BEGIN | START | COMMIT | END | ABORT | PREPARE \s+ TRANSACTION
    | ROLLBACK (?! (?: \s+ (?: WORK | TRANSACTION ) )? \s+ TO \b ) ) \b
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def refuse_control(sql: str, is_complete: Callable[[str], bool] | None = None) -> None:
    """Refuse `sql` if it would begin or end a transaction.

    Args:
        is_complete: says whether a text that ends in a semicolon ends in one that ends a statement.
            Without it, `sql` is one statement: a server refuses several in one call.

    Raises:
        ContextError: it would.
    """
    found = _CONTROL.match(sql)
    if found is None and is_complete is not None:
        later = (_CONTROL.match(sql, each.end()) for each in re.finditer(";", sql))
        found = next((each for each in later if each and is_complete(sql[: each.start()])), None)
    if found is not None:
        raise ContextError(
            f"{found[1].upper()} is refused: the block that began this transaction commits it at "
            "its end, or rolls it back on an exception; inside it, use SAVEPOINT and ROLLBACK TO"
        )
