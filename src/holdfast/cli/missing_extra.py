"""What `holdfast` answers where the extra `cli` is not installed."""

import argparse
from collections.abc import Sequence
from importlib.metadata import version

from holdfast.cli.base_command import unknown_option
from holdfast.cli.base_commands import BASE_COMMANDS
from holdfast.cli.commands import ABOUT, COMMANDS
from holdfast.cli.extensions import command_names
from holdfast.cli.usage import UsageError


def needs_more(command: str) -> str:
    """Return the line that says what to install for `command`."""
    extras = "cli,http" if command == "serve" else "cli"
    return f"{command} needs more: pip install 'holdfast[{extras}]'"


def run(words: Sequence[str]) -> int:
    """Print the help or the version, if `words` ask for one; return the exit code.

    Raises:
        UsageError: there is neither a command nor a known option.
        ValueError: the command needs the extra.
    """
    if words and words[0] in COMMANDS:
        raise ValueError(needs_more(words[0]))
    try:
        _parser().parse_known_args(words[:1])
    except SystemExit:  # it was asked for and is printed
        return 0
    error = unknown_option(words[0], ("--version", "--help")) if words else "Missing command"
    raise UsageError(f"{error}; see: holdfast --help")


def _parser() -> argparse.ArgumentParser:
    others = ", ".join(name for name in COMMANDS if name not in BASE_COMMANDS)
    parser = argparse.ArgumentParser(
        "holdfast",
        description=ABOUT,
        allow_abbrev=False,
        epilog=f"More commands come with pip install 'holdfast[cli]': {others}.",
    )
    parser.add_argument("--version", action="version", version=f"holdfast {version('holdfast')}")
    listed = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in BASE_COMMANDS.values():
        listed.add_parser(command.name, help=command.summary)
    for name, package in sorted(command_names().items()):
        listed.add_parser(name, help=f"Added by {package}.")
    return parser
