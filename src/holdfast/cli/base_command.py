"""Commands that work without the extra `cli`: argparse reads their words.

typer, which the extra brings, reads all other commands. For these it has the help and the
completion of shells, from the same `Parameter`s.
"""

import argparse
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from holdfast.cli.usage import UsageError


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument or an option of a command, for argparse and for typer."""

    name: str
    """An option begins with "--"."""
    help: str
    metavar: str | None = None
    """What the help calls the value; None is an option without one, which is True or False."""
    many: bool = False
    """It may be given several times; the value is a list."""
    convert: type[int | str] = str

    @property
    def is_option(self) -> bool:
        """Whether it is an option; otherwise it is any number of words in their places."""
        return self.name.startswith("--")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let `parser` read it."""
        if self.metavar is None:
            parser.add_argument(self.name, action="store_true", help=self.help)
        elif self.is_option:
            action = "append" if self.many else "store"
            parser.add_argument(
                self.name, action=action, metavar=self.metavar, type=self.convert, help=self.help
            )
        else:
            parser.add_argument(self.name, nargs="*", metavar=self.metavar, help=self.help)


@dataclass(frozen=True, slots=True)
class BaseCommand:
    """A command with its parameters."""

    function: Callable[..., int]
    """It gets the parameters by keyword and returns the exit code; its docstring is the help."""
    parameters: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        """The word that asks for it."""
        return self.function.__name__

    @property
    def help(self) -> str:
        """What it does: one line, and then more."""
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return self.help.partition("\n")[0]

    def run(self, words: Sequence[str]) -> int:
        """Do what `words`, those after its name, ask for; return the exit code.

        Raises:
            UsageError: they are not understood.
        """
        parser = RaisingParser(f"holdfast {self.name}", description=self.help, allow_abbrev=False)
        for parameter in self.parameters:
            parameter.add_to(parser)
        try:
            asked = vars(parser.parse_intermixed_args(words))
        except SystemExit:  # the help was asked for and is printed
            return 0
        return self.function(**asked)


class RaisingParser(argparse.ArgumentParser):
    """A parser that raises `UsageError` in place of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong, and where to look."""
        raise UsageError(f"{message}; see: {self.prog} --help")
