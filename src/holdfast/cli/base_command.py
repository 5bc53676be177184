"""Commands that work without the extra `cli`: argparse reads their words.

typer, which the extra brings, reads all other commands. For these it has the help and the
completion of shells, from the same `Parameter`s.
"""

import argparse
import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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
            parser.add_argument(self.name, action=action, metavar=self.metavar, help=self.help)
        else:
            parser.add_argument(self.name, nargs="*", metavar=self.metavar, help=self.help)

    def converted(self, given: Any) -> Any:
        """Return what `parser` has read, as the function takes it.

        Raises:
            UsageError: it is no whole number.
        """
        if self.convert is str or given is None:
            return given
        try:
            return self.convert(given)
        except ValueError:
            line = f"Invalid value for {self.name!r}: {given!r} is not a valid integer"
            raise UsageError(line) from None

    @property
    def key(self) -> str:
        """Its name as an argument of a function."""
        return self.name.lstrip("-").replace("-", "_")


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
        parser = argparse.ArgumentParser(
            f"holdfast {self.name}",
            description=self.help,
            allow_abbrev=False,
            exit_on_error=False,
        )
        for parameter in self.parameters:
            parameter.add_to(parser)
        try:
            asked = self._read(parser, words)
        except UsageError as error:
            raise UsageError(f"{error}; see: {parser.prog} --help") from None
        return 0 if asked is None else self.function(**asked)

    def _read(self, parser: argparse.ArgumentParser, words: Sequence[str]) -> dict[str, Any] | None:
        """Return the parameters in `words`; None if the help was asked for, and is printed.

        Raises:
            UsageError: they are not understood; in the words that typer uses.
        """
        options = {each.name: each for each in self.parameters if each.is_option}
        try:
            asked, rest = parser.parse_known_intermixed_args(words)
        except argparse.ArgumentError as error:
            name = str(error.argument_name)
            takes_one = name in options and options[name].metavar is not None
            what = "requires an argument" if takes_one else "does not take a value"
            raise UsageError(f"Option {name!r} {what}") from None
        except SystemExit:
            return None
        if rest:
            raise unknown_option(rest[0], options)
        return {each.key: each.converted(getattr(asked, each.key)) for each in self.parameters}


def unknown_option(word: str, known: Iterable[str]) -> UsageError:
    """Return the error for an option that none of `known` is, as typer words it."""
    name = word.partition("=")[0]
    near = ", ".join(difflib.get_close_matches(name, tuple(known)))
    return UsageError(f"No such option: {name}" + (f" (Possible options: {near})" if near else ""))
