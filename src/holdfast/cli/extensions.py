"""What installed apps add to the command line, found by entry point.

An entry of the group `holdfast.commands` is a command: a function that is called with the words
after its name and returns the exit code. An entry of the group `holdfast.serve_options` is a
function that adds options to the parser of `holdfast serve`. Such an option writes a setting: its
`dest` is the setting's name and its value the setting's text, which the apps read from their
environment like any other setting.
"""

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import TypeAlias

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


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Let apps add their options to the parser of `holdfast serve`."""
    for entry in entry_points(group=SERVE_OPTIONS):
        entry.load()(parser)


def settings_of(asked: argparse.Namespace) -> dict[str, str]:
    """Return the settings that the options of apps have written, by name."""
    fields = vars(asked).items()
    return {name: value for name, value in fields if name.isupper() and value is not None}
