"""The command line where the extra `cli` is not installed."""

import importlib.metadata
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from tests.support.modules import forget_modules

from holdfast.cli import extensions, main
from holdfast.cli.commands import COMMANDS


@pytest.fixture(autouse=True)
def without_typer(monkeypatch):
    """Let typer not be found, as where it is not installed."""
    forget_modules(monkeypatch, "holdfast.cli.application")
    monkeypatch.setitem(sys.modules, "typer", None)


def test_the_help_lists_what_works_and_names_the_extra(capsys, monkeypatch):
    app = EntryPoint("greet", "greetings:greet", extensions.COMMANDS)
    monkeypatch.setattr(extensions, "entry_points", lambda group: [app])

    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    listed, _, more = shown.partition("More commands come with pip install 'holdfast[cli]': ")
    assert "worker Run jobs until SIGTERM or Ctrl-C." in listed
    assert "migrate Create or update a database's schema, with the tables of the apps." in listed
    assert "greet Added by an app." in listed
    others = [name for name in COMMANDS if name not in {"worker", "migrate"}]
    assert more.rstrip(".").split(", ") == others


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"holdfast {importlib.metadata.version('holdfast')}\n"


@pytest.mark.parametrize(
    "words, extras",
    [(["jobs", "list"], "cli"), (["jobs", "--help"], "cli"), (["serve"], "cli,http")],
)
def test_a_command_that_needs_more_names_the_extras(words, extras, capsys):
    assert main(words) == 1
    said = f"holdfast: {words[0]} needs more: pip install 'holdfast[{extras}]'\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "Missing command; see: holdfast --help"),
        (["--nonsense"], "No such option: --nonsense; see: holdfast --help"),
        (
            ["--versoin", "x"],
            "No such option: --versoin (Possible options: --version); see: holdfast --help",
        ),
    ],
)
def test_words_that_are_not_understood_are_one_line_and_exit_code_2(words, said, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err == f"holdfast: {said}\n"


def test_a_module_that_is_missing_from_somewhere_else_is_not_blamed_on_the_extra(monkeypatch):
    monkeypatch.undo()
    forget_modules(monkeypatch, "holdfast.cli.application")
    monkeypatch.setitem(sys.modules, "holdfast.cli.commands", None)
    with pytest.raises(ModuleNotFoundError, match=r"holdfast\.cli\.commands"):
        main(["jobs"])


def test_serve_names_both_extras_also_where_only_http_is_missing():
    program = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from holdfast.cli import main\n"
        "sys.exit(main(['serve']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    said = "holdfast: serve needs more: pip install 'holdfast[cli,http]'\n"
    assert (done.returncode, done.stderr) == (1, said)
