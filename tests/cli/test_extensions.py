"""What installed apps add to the command line."""

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
    assert main(["--help"]) == 0
    assert "greet" in capsys.readouterr().out


def test_an_option_of_an_app_writes_a_setting_and_leaves_the_other_words(installed):
    words = ["--own", "x", "--loud", "mypackage:app", "--na"]

    settings, rest = extensions.parse_serve_options(words)

    assert settings == {"GREETING_VOLUME": "11"}
    assert rest == ["--own", "x", "mypackage:app", "--na"]


def test_serve_gets_the_settings_of_apps_beside_its_own_options(installed, monkeypatch):
    asked = []
    monkeypatch.setattr("holdfast.cli.serve.serve", lambda *apps, **rest: asked.append(rest) or 0)

    assert main(["serve", "--loud", "a:b", "--name", "Ann", "--no-worker"]) == 0

    assert asked[0]["settings"] == {"GREETING_VOLUME": "11", "GREETING_NAME": "Ann"}
    assert asked[0]["worker"] is False


def test_the_help_of_serve_has_the_options_of_apps_and_a_wrong_use_is_one_line(installed, capsys):
    assert main(["serve", "--help"]) == 0
    assert "--loud" in capsys.readouterr().out

    assert main(["serve", "--name"]) == 2
    assert capsys.readouterr().err == "holdfast: argument --name: expected one argument\n"


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
