"""What installed apps add to the command line, found by entry point.

An entry of the group `holdfast.commands` is a command: a function that is called with the words
after its name and returns the exit code. An entry of the group `holdfast.serve_options` is a
function that adds options of `holdfast serve` to a parser of argparse. Such an option writes a
setting: its `dest` is the setting's name and its value the setting's text, which the apps read from
their environment like any other setting.
"""

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import NoReturn, TypeAlias

from holdfast.cli.usage import UsageError

COMMANDS = "holdfast.commands"
SERVE_OPTIONS = "holdfast.serve_options"

Command: TypeAlias = Callable[[Sequence[str]], int]


def find_command(name: str) -> Command | None:
    """Return the command called `name` that an app adds; None where none does."""
    for entry in entry_points(group=COMMANDS, name=name):
        command: Command = entry.load()
        return command
    return None


def command_names() -> dict[str, str]:
    """Return the names of the commands that apps add, each with the package that it is from."""
    found = entry_points(group=COMMANDS)
    return {entry.name: entry.dist.name if entry.dist else "an app" for entry in found}


def parse_serve_options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the settings that the options of apps among `words` write, and the other words.

    Raises:
        UsageError: an option of an app is used wrongly.
    """
    asked, rest = _serve_parser().parse_known_args(list(words))
    settings = {name: value for name, value in vars(asked).items() if value is not None}
    return settings, rest


def serve_options_help() -> str:
    """Return the help for the options that apps add to `holdfast serve`; "" without any."""
    return _serve_parser().format_help() if entry_points(group=SERVE_OPTIONS) else ""


class _Parser(argparse.ArgumentParser):
    """A parser for the options of apps alone, which leaves all other words to the command."""

    def __init__(self) -> None:
        super().__init__(
            usage=argparse.SUPPRESS,
            description="Options of installed apps:",
            add_help=False,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise in place of ending the process."""
        raise UsageError(message)


def _serve_parser() -> _Parser:
    parser = _Parser()
    for entry in entry_points(group=SERVE_OPTIONS):
        entry.load()(parser)
    return parser
