"""Commands whose words argparse reads."""

import pytest

from holdfast.cli.base_command import BaseCommand, Parameter
from holdfast.cli.usage import UsageError


@pytest.fixture
def asked():
    """What the command was called with, once per call."""
    return []


@pytest.fixture
def command(asked):
    def post(**values):
        """Post letters.

        Stamps are your own.
        """
        asked.append(values)
        return 7

    parameters = (
        Parameter("letters", "Which ones.", metavar="LETTER", many=True),
        Parameter("--box", "Where.", metavar="PLACE"),
        Parameter("--stamp", "May be repeated.", metavar="NAME", many=True),
        Parameter("--copies", "How many.", metavar="N", convert=int),
        Parameter("--by-air", "Faster."),
    )
    return BaseCommand(post, parameters)


NOTHING: dict[str, object] = {
    "letters": [],
    "box": None,
    "stamp": None,
    "copies": None,
    "by_air": False,
}


@pytest.mark.parametrize(
    "words, given",
    [
        ([], {}),
        (["a", "b"], {"letters": ["a", "b"]}),
        (["a", "--by-air", "b"], {"letters": ["a", "b"], "by_air": True}),
        (["--box=here", "--", "a"], {"box": "here", "letters": ["a"]}),
        (["--stamp", "x", "--stamp", "y", "--copies", "-1"], {"stamp": ["x", "y"], "copies": -1}),
    ],
)
def test_the_function_gets_every_parameter_and_returns_the_exit_code(command, asked, words, given):
    assert command.run(words) == 7
    assert asked == [NOTHING | given]


@pytest.mark.parametrize(
    "words, said",
    [
        (["--nonsense"], "No such option: --nonsense"),
        (["-x", "a"], "No such option: -x"),
        (["--copes", "2"], r"No such option: --copes \(Possible options: --copies\)"),
        (["--copies", "many"], "Invalid value for '--copies': 'many' is not a valid integer"),
        (["--box"], "Option '--box' requires an argument"),
        (["--by-air=yes"], "Option '--by-air' does not take a value"),
        (["--by"], r"No such option: --by \(Possible options: --by-air, --box\)"),
    ],
)
def test_words_that_are_not_understood_are_one_line_that_names_the_help(
    command, asked, words, said
):
    with pytest.raises(UsageError, match=rf"^{said}; see: holdfast post --help$"):
        command.run(words)
    assert asked == []


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_the_help_has_the_docstring_and_every_parameter(command, asked, capsys, word):
    assert command.run([word]) == 0
    shown = capsys.readouterr().out
    assert "Post letters. Stamps are your own." in " ".join(shown.split())
    for each in command.parameters:
        assert each.help in shown
        assert (each.metavar or each.name) in shown
    assert asked == []
