"""Print rows: a table on a terminal, TSV when piped."""

import sys
from collections.abc import Sequence


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print `rows`, of which the first has the names of the columns."""
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def one_line(value: object) -> str:
    """Return `value` as the text of one cell; None is empty."""
    return "" if value is None else " ".join(str(value).split())
