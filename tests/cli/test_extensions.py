"""What installed apps add to the command line."""

import argparse
from importlib.metadata import EntryPoint

import pytest

from holdfast.cli import extensions, main


def greet(words):
    """The command of an app; return the number of its arguments."""
    return len(words)


def add_options(parser):
    """The options of an app."""
    parser.add_argument("--loud", dest="GREETING_VOLUME", action="store_const", const="11")
    parser.add_argument("--name", dest="GREETING_NAME")


@pytest.fixture
def installed(monkeypatch):
    """Register this module as an installed app."""
    entries = (
        EntryPoint("greet", f"{__name__}:greet", extensions.COMMANDS),
        EntryPoint("greeting", f"{__name__}:add_options", extensions.SERVE_OPTIONS),
    )

    def entry_points(group, name=None):
        return [each for each in entries if each.group == group and name in (None, each.name)]

    monkeypatch.setattr(extensions, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda entry: globals()[entry.attr])


def test_a_command_of_an_app_gets_the_arguments_after_its_name(installed):
    assert main(["greet", "you", "--loud"]) == 2
    assert main(["greet"]) == 0


def test_the_help_names_the_commands_of_apps(installed, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    assert ended.value.code == 0
    assert "greet" in capsys.readouterr().out


def test_an_option_of_an_app_writes_a_setting(installed):
    parser = argparse.ArgumentParser()
    parser.add_argument("--own")
    extensions.add_serve_options(parser)

    asked = parser.parse_args(["--loud", "--own", "x"])

    assert extensions.settings_of(asked) == {"GREETING_VOLUME": "11"}


def test_the_gateway_is_a_command_of_the_conversion_app(capsys):
    with pytest.raises(SystemExit):
        main(["gateway", "--help"])

    assert "Convert PDFs to XML" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name, code, hint", [("gateway", 1, "pip install holdfast-conversion"), ("fly", 2, "serve")]
)
def test_a_command_that_no_installed_app_adds_is_one_line(monkeypatch, capsys, name, code, hint):
    monkeypatch.setattr(extensions, "entry_points", lambda group, name=None: [])

    assert main([name]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert f"no installed app adds a command '{name}'" in line
    assert hint in line
