"""Statements that would begin or end a transaction, which the block that began it ends itself.

The rows of the block would be committed without the job or the completion that belongs to them, or
be lost without an error. Savepoints are allowed: they change nothing beyond the transaction.
"""

import re
from collections.abc import Iterator
from itertools import chain, dropwhile, islice
from typing import Literal

from holdfast.jobs.exceptions import ContextError

Dialect = Literal["postgresql", "sqlite"]

_PART = re.compile(r"\w+|--|/\*|[^\s\ufeff]")
"""A word, the beginning of a comment, or one character. SQLite takes a byte order mark for a space.
"""
_CLOSING = {"'": "'", '"': '"', "`": "`", "[": "]"}
"""What ends a quoted text or name. A doubled quote reads as two quoted texts side by side."""
_LINE_END = {"postgresql": re.compile(r"[\r\n]"), "sqlite": re.compile(r"\n")}
_COMMENT_MARK = re.compile(r"/\*|\*/")
_BEGINNING = 3
"""Parts of a statement that say what it is, such as ROLLBACK TRANSACTION TO."""


def refuse_control(sql: str, dialect: Dialect) -> None:
    """Refuse `sql` if a statement of it would begin or end a transaction.

    Raises:
        ContextError: one would.
    """
    parts = _parts(sql, dialect)
    # A PostgreSQL server refuses several statements in one call.
    is_one = dialect == "postgresql" or ";" not in sql
    beginnings = [_first_beginning(parts)] if is_one else _beginnings(parts)
    for beginning in beginnings:
        control = _control(beginning)
        if control is not None:
            raise ContextError(
                f"{control} is refused: the block that began this transaction commits it at its "
                "end, or rolls it back on an exception; inside it, use SAVEPOINT and ROLLBACK TO"
            )


def _control(beginning: list[str]) -> str | None:
    """Return the command if a statement that begins so would begin or end a transaction."""
    match beginning:
        case ["BEGIN" | "START" | "COMMIT" | "END" | "ABORT" as command, *_]:
            return command
        case ["PREPARE", "TRANSACTION", *_]:
            return "PREPARE TRANSACTION"
        case ["ROLLBACK", "TO", *_] | ["ROLLBACK", "WORK" | "TRANSACTION", "TO"]:
            return None
        case ["ROLLBACK", *_]:
            return "ROLLBACK"
    return None


def _first_beginning(parts: Iterator[str]) -> list[str]:
    """Return the first parts of the first statement."""
    return list(islice(dropwhile(lambda part: part == ";", parts), _BEGINNING))


def _beginnings(parts: Iterator[str]) -> Iterator[list[str]]:
    """Yield the first parts of each statement."""
    beginning: list[str] = []
    before = last = ""
    for part in chain(parts, ";"):
        # The statements inside a trigger end in semicolons too; the trigger ends after `; END`.
        if part == ";" and ((before, last) == (";", "END") or not _is_trigger(beginning)):
            yield beginning
            beginning = []
        elif len(beginning) < _BEGINNING:
            beginning.append(part)
        before, last = last, part


def _is_trigger(beginning: list[str]) -> bool:
    match beginning:
        case ["CREATE", "TRIGGER", *_] | ["CREATE", "TEMP" | "TEMPORARY", "TRIGGER"]:
            return True
    return False


def _parts(sql: str, dialect: Dialect) -> Iterator[str]:
    """Yield words in capitals, and other characters one by one.

    Spaces and comments are left out. Of a quoted text or name the opening quote is yielded, so that
    it never reads as a word. PostgreSQL's dollar quotes are not known here: no statement begins
    with one, and only the beginning of its first statement is asked for.
    """
    position = 0
    while found := _PART.search(sql, position):
        part, position = found[0], found.end()
        if part == "--":
            line_end = _LINE_END[dialect].search(sql, position)
            position = line_end.end() if line_end else len(sql)
        elif part == "/*":
            position = _comment_end(sql, position, nests=dialect == "postgresql")
        else:
            if part in _CLOSING:
                closing = sql.find(_CLOSING[part], position)
                position = closing + 1 if closing >= 0 else len(sql)
            yield part.upper()


def _comment_end(sql: str, position: int, *, nests: bool) -> int:
    """Return where the block comment ends whose text begins at `position`."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(sql, position):
        if mark[0] == "*/":
            depth -= 1
        elif nests:
            depth += 1
        if depth == 0:
            return mark.end()
    return len(sql)
