"""The command line."""

import importlib.metadata
import os
import subprocess
import sys

import pytest
import typer

from holdfast.cli import main
from holdfast.cli.commands import COMMANDS
from holdfast.cli.options import CARE, FLEET, RUNNING, WORK


def test_the_tour_shows_retries_retry_after_and_the_breaker(capsys):
    assert main(["tour", "--pace", "0.05"]) == 0

    told = capsys.readouterr().out
    assert "the price is 42 (attempts: 3, SUCCESS)" in told
    assert "next in 1.00 s" in told
    assert "HTTP Error 404" in told
    assert "(attempts: 1, PERMANENT)" in told
    assert "circuit CLOSED -> OPEN" in told
    assert "(attempts: 0, BREAKER)" in told
    assert "circuit HALF_OPEN -> CLOSED" in told
    assert "7 calls, 3 succeeded" in told


def test_python_dash_m_is_the_same_command():
    helped = subprocess.run(
        [sys.executable, "-m", "holdfast", "--help"], capture_output=True, text=True, check=True
    )

    assert "tour" in helped.stdout


@pytest.mark.parametrize("pace", ["0", "-1", "fast", "1000", "nan"])
def test_a_bad_pace_is_refused_in_one_line(pace, capsys):
    assert main(["tour", "--pace", pace]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert pace in line
    assert line.endswith("see: holdfast tour --help")


def test_without_a_command_one_line_says_where_the_help_is(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == "holdfast: Missing command; see: holdfast --help\n"


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"holdfast {importlib.metadata.version('holdfast')}\n"


@pytest.mark.parametrize(
    "words, expected",
    [
        ("holdfast work", ["worker", "workers"]),
        ("holdfast dead re", ["requeue"]),
        ("holdfast worker --un", ["--until-idle"]),
        ("holdfast gate", ["gateway"]),
        ("holdfast jobs list --status c", ["complete", "cancelled"]),
    ],
)
def test_a_shell_completes_commands_of_holdfast_and_of_apps_and_values(
    words, expected, capsys, monkeypatch
):
    monkeypatch.setenv("_HOLDFAST_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit) as ended:  # typer ends the process
        main([])
    assert (ended.value.code, capsys.readouterr().out.split()) == (0, expected)


def test_the_help_has_every_command_under_a_heading(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    headings = [RUNNING, WORK, FLEET, CARE, "Of installed apps"]
    places = [shown.index(f"─ {heading} ─") for heading in headings]
    assert places == sorted(places)
    assert "─ Commands ─" not in shown
    for name in COMMANDS:
        assert f"│ {name} " in shown


@pytest.mark.parametrize(
    "words, needed, heavy",
    [
        (
            ["relay", "--help"],
            "holdfast.cli.commands.run",
            ("holdfast.cli.commands.jobs", "holdfast.bootstrap", "holdfast.http"),
        ),
        (
            ["worker", "--help"],
            "holdfast.cli.base_commands",
            ("holdfast.cli.commands.run", "holdfast.bootstrap", "typer", "rich", "pydantic"),
        ),
    ],
)
def test_only_what_the_command_needs_is_imported(words, needed, heavy):
    program = (
        f"import sys; from holdfast.cli import main; main({words}); print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert needed in loaded
    assert loaded & set(heavy) == set()


def test_output_that_nothing_reads_ends_a_command_without_a_traceback(tmp_path):
    (tmp_path / "letters.py").write_text("import holdfast\napp = holdfast.App('letters')\n")
    reader, writer = os.pipe()
    os.close(reader)
    words = ["migrate", "letters:app", "--sql", "--database", "sqlite:///work.db"]
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_answer_that_is_interrupted_is_exit_code_130(monkeypatch):
    def interrupted(words):
        raise typer.Abort

    monkeypatch.setattr("holdfast.cli.application.application", interrupted)
    assert main(["jobs", "list"]) == 130
