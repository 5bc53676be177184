"""The command line: parsing, and nothing else.

Exit codes: 0 done, 1 it could not be done, 2 the command was not understood or names something that
does not exist (one line on standard error says why), 130 interrupted. A worker that had to be ended
by force: 3 where code of handlers still ran, 4 where running jobs were left to their leases.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.base_commands import BASE_COMMANDS
from holdfast.cli.commands import COMMANDS
from holdfast.cli.usage import UsageError, guess
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from typer import TyperException

INTERRUPTED = 130
_PACKAGES = {"gateway": "holdfast-conversion"}
"""Commands of our own apps, and the package that brings each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` asks for and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except (HoldfastError, ValueError) as error:
        # A person can correct it, so it is one line, without a traceback.
        print(f"holdfast: {error}", file=sys.stderr)
        return 2 if _is_usage_error(error) else 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has ended, such as `head`; Python's last flush must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(words: Sequence[str]) -> int:
    name = words[0] if words else ""
    if name in BASE_COMMANDS:
        return BASE_COMMANDS[name].run(words[1:])
    if name and not name.startswith("-") and name not in COMMANDS:
        return _of_app(name, words[1:])
    try:
        import typer

        from holdfast.cli.application import application
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        from holdfast.cli import missing_extra

        return missing_extra.run(words)
    try:
        code = application(words).main(list(words), prog_name="holdfast", standalone_mode=False)
    except typer.TyperException as error:
        print(f"holdfast: {_one_line(error)}", file=sys.stderr)
        return error.exit_code
    except typer.Abort:  # Ctrl-C or Ctrl-D in place of an answer
        return INTERRUPTED
    return code or 0


def _one_line(error: "TyperException") -> str:
    """Return what typer says about a command that it does not understand, and where to look."""
    text = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    return text if context is None else f"{text}; see: {context.command_path} --help"


def _is_usage_error(error: Exception) -> bool:
    from holdfast.jobs.store_values import BadAddress

    return isinstance(error, UsageError | BadAddress)


def _of_app(name: str, words: Sequence[str]) -> int:
    from holdfast.cli.extensions import find_command

    command = find_command(name)
    if command is not None:
        return command(words)
    package = _PACKAGES.get(name)
    own = f"Holdfast itself has {', '.join(COMMANDS)}{guess(name, COMMANDS)}"
    hint = own if package is None else f"pip install {package}"
    print(f"holdfast: no installed app adds a command {name!r}; {hint}", file=sys.stderr)
    return 2 if package is None else 1
