"""All commands as one typer application.

Only the module of the command that is asked for is imported; the help, the completion of shells and
the documentation import all of them. These modules import in turn what they need when they run.
"""

import importlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from holdfast.cli.commands import ABOUT, COMMANDS


class _Ordered(TyperGroup):
    """List the commands in the order of `COMMANDS`, those of apps after them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        places = list(COMMANDS)
        return sorted(
            super().list_commands(ctx),
            key=lambda name: places.index(name) if name in COMMANDS else len(places),
        )


def application(words: Sequence[str] = ()) -> TyperGroup:
    """Return the application; where `words` begin with a command, it has only that one's module."""
    root = typer.Typer(
        name="holdfast",
        cls=_Ordered,
        help=ABOUT,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_root)
    asked = [name for name in COMMANDS if name in words[:1]] or list(COMMANDS)
    if list(words) == ["--version"]:
        asked = []
    for module in dict.fromkeys(COMMANDS[name] for name in asked):
        for declared in importlib.import_module(f"holdfast.cli.commands.{module}").APPS:
            root.add_typer(declared, rich_help_panel=declared.rich_help_panel)
    if len(asked) > 1:
        _add_commands_of_apps(root)
    group = get_command(root)
    assert isinstance(group, TyperGroup)
    return group


def _add_commands_of_apps(root: typer.Typer) -> None:
    """List the commands of installed apps in the help; `main` runs them."""
    from holdfast.cli.extensions import command_names

    for name, package in sorted(command_names().items()):
        root.command(name, help=f"Added by {package}.", rich_help_panel="Of installed apps")(
            _of_an_app
        )


def _of_an_app() -> None:
    raise AssertionError("the commands of apps are run by main")  # pragma: no cover


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"holdfast {version('holdfast')}")
        raise typer.Exit


def _root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Run before each command; all it has is its options."""
