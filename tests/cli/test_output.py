"""Tables, TSV and JSON."""

import json
import re
import sys

import pytest

from holdfast.cli.output import confirm, moment, printable, show, show_one
from holdfast.cli.usage import UsageError

RECORDS = [
    {"id": "a" * 32, "status": "failed", "created_at": moment(0.0), "error": "odd\ttext\nhere"},
    {"id": "b", "status": "queued", "created_at": None, "error": None, "big_count": 3},
]
COLUMNS = ("id", "status", "created_at", "error")


@pytest.fixture
def terminal(monkeypatch, capsys):
    """A function that returns what is shown on a terminal of so many columns."""

    def shown(columns, records=RECORDS):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        show(records, COLUMNS)
        return re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()

    return shown


def test_tsv_has_one_line_per_record_and_exact_times(capsys):
    show(RECORDS, COLUMNS, empty="-")
    assert capsys.readouterr().out.splitlines() == [
        "id\tstatus\tcreated_at\terror",
        f"{'a' * 32}\tfailed\t1970-01-01T00:00:00.000Z\todd text here",
        "b\tqueued\t-\t-",
    ]


def test_json_has_all_fields_in_camel_case(capsys):
    show(RECORDS, COLUMNS, as_json=True)
    first, second = json.loads(capsys.readouterr().out)
    assert (first["createdAt"], first["error"]) == ("1970-01-01T00:00:00.000Z", "odd\ttext\nhere")
    assert (second["bigCount"], second["createdAt"]) == (3, None)


def test_a_wide_terminal_has_all_columns(terminal):
    header, first, _ = terminal(120)
    assert header.split() == ["id", "status", "created", "at", "error"]
    assert first.split("  ")[1:] == ["failed", "1970-01-01 00:00:00", "odd text here"]


def test_a_narrow_terminal_leaves_out_columns_on_the_right_but_no_id_and_no_error(terminal):
    header, first, *_ = terminal(65)
    assert header.split() == ["id", "status", "error"]
    assert first.startswith("a" * 32)
    header, first, *_ = terminal(50)
    assert header.split() == ["id", "error"]
    assert first.startswith("a" * 32)


def test_a_list_without_records_is_its_header(terminal):
    assert terminal(80, records=[])[0].split() == ["id", "status", "created", "at", "error"]


def test_the_text_of_an_error_cannot_steer_the_terminal(capsys):
    show_one({"error": "\x1b[2Jgone\x07"})
    assert capsys.readouterr().out == "field\tvalue\nerror\t\ufffd[2Jgone\ufffd\n"
    assert printable("first\nsecond\x1b") == "first\nsecond\ufffd"


def test_markup_in_a_cell_is_text(terminal):
    assert "[red]x[/red]" in terminal(120, [{"id": "[red]x[/red]"}])[1]


def test_without_a_terminal_a_question_needs_yes(monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    assert confirm("go on?", yes=True)
    with pytest.raises(UsageError, match=r"go on\? Add --yes"):
        confirm("go on?", yes=False)
