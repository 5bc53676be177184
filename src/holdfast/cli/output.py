"""Print records: a table on a terminal, TSV when piped, or JSON.

A record maps names in snake_case to values. The names are the columns of a table and of TSV, and in
camelCase the keys of the JSON. Times are `datetime` values in UTC, see `moment`. TSV and JSON are
never cut; on a narrow terminal the table leaves out columns, but ids are kept whole.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

Record: TypeAlias = Mapping[str, object]

STYLES = {
    "failed": "red", "problem": "red", "OPEN": "red",
    "warning": "yellow", "HALF_OPEN": "yellow", "paused": "yellow", "held": "yellow",
    "complete": "green", "ok": "green", "CLOSED": "green",
}  # fmt: skip
"""Colours of cells that name a state; NO_COLOR turns all colours off."""
_TEXTS = {"error", "error_message", "message", "value", "finding", "advice"}
"""Columns whose text is wrapped; the others stay on one line."""
_LEAST_TEXT = 20
"""Characters that such a column has at least."""
_GAP = 2
"""Spaces between two columns."""


def moment(at: float | None) -> datetime | None:
    """Return epoch seconds as a time in UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC)


def show(
    records: Iterable[Record],
    columns: Sequence[str],
    *,
    as_json: bool = False,
    empty: str = "",
) -> None:
    """Print records: `columns` of each as a table or TSV, or all fields as a JSON list.

    `empty` is printed for None, but not in JSON.
    """
    found = list(records)
    if as_json:
        show_json(found)
    elif sys.stdout.isatty():
        _print_table(found, columns, empty)
    else:
        _print_tsv(found, columns, empty)


def show_one(record: Record) -> None:
    """Print one record with a field per line."""
    fields = [{"field": name, "value": _cell(value, "")} for name, value in record.items()]
    show(fields, ("field", "value"))


def show_json(value: Record | Sequence[Record]) -> None:
    """Print one record or a list of them as JSON."""
    found = camel(value) if isinstance(value, Mapping) else [camel(each) for each in value]
    print(json.dumps(found, indent=2, default=_plain))


def camel(record: Record) -> dict[str, object]:
    """Return `record` with its names in camelCase; what is inside of its values is left alone."""
    return {_camel(name): value for name, value in record.items()}


def one_line(value: object) -> str:
    """Return `value` as the text of one cell; None is empty."""
    return "" if value is None else printable(" ".join(str(value).split()))


def printable(text: str) -> str:
    """Return `text` with its control characters replaced, except the ends of lines.

    The text of an error must not steer the terminal.
    """
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)


def note(line: str) -> None:
    """Print a line for people on standard error, beside the data on standard output."""
    print(f"holdfast: {line}", file=sys.stderr)


def confirm(question: str, *, yes: bool) -> bool:
    """Return whether a person agrees; `yes` is `--yes`.

    Raises:
        UsageError: there is no terminal to ask on, so `--yes` is needed.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        from holdfast.cli.usage import UsageError

        raise UsageError(f"{question} Add --yes to do it, or --dry-run to see what it would do")
    import typer

    return typer.confirm(question, err=True)


def _print_tsv(records: Sequence[Record], columns: Sequence[str], empty: str) -> None:
    print("\t".join(columns))
    for record in records:
        print("\t".join(_cell(record.get(name), empty) for name in columns))


def _print_table(records: Sequence[Record], columns: Sequence[str], empty: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    cells = {
        name: [_cell(record.get(name), empty, _short_time) for record in records]
        for name in columns
    }
    fitting = _fitting(cells, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in fitting:
        table.add_column(
            name.replace("_", " "), no_wrap=name not in _TEXTS, overflow="fold",
            min_width=None if name in _TEXTS else _width(name, cells[name]),
        )  # fmt: skip
    for row in zip(*(cells[name] for name in fitting), strict=True):
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console.print(table)


def _fitting(cells: Mapping[str, Sequence[str]], available: int) -> list[str]:
    """Return the columns that have room; those on the right give way first, texts never."""
    fitting = list(cells)

    def needed() -> int:
        widths = (
            min(_LEAST_TEXT, _width(name, cells[name])) if name in _TEXTS
            else _width(name, cells[name])
            for name in fitting
        )  # fmt: skip
        return sum(widths) + _GAP * len(fitting)

    optional = [name for name in fitting[1:] if name not in _TEXTS]
    while optional and needed() > available:
        fitting.remove(optional.pop())
    return fitting


def _width(name: str, cells: Sequence[str]) -> int:
    return max(len(name), *map(len, cells), 0)


def _cell(value: object, empty: str, shown: Callable[[datetime], str] | None = None) -> str:
    if value is None:
        return empty
    if isinstance(value, datetime):
        return (shown or _exact_time)(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(value)


def _exact_time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _short_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _plain(value: object) -> str:
    return _exact_time(value) if isinstance(value, datetime) else str(value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
