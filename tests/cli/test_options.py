"""What typer makes of the parameters of base commands."""

import pytest

from holdfast.cli import main


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["a", "--until-idle", "b", "--queue", "x", "--queue", "y", "--concurrency", "3"],
        ["--database", "sqlite:///work.db", "--", "a"],
    ],
)
def test_typer_reads_the_words_of_a_base_command_as_argparse_does(options, monkeypatch):
    asked = []

    def note(apps, database, **rest):
        asked.append((list(apps), database, rest))
        return 7

    monkeypatch.setattr("holdfast.cli.worker_process.work", note)
    assert main(["worker", *options]) == 7
    assert main(["--", "worker", *options]) == 7  # words after an option of `holdfast` are typer's
    assert asked[0] == asked[1]


@pytest.mark.parametrize("words", [["--check"], ["--sql"]])
def test_a_flag_of_migrate_means_the_same_to_both(words, tmp_path, capsys):
    database = f"sqlite:///{tmp_path}/work.db"
    words = ["migrate", "tests.support.notes:app", "--database", database, *words]
    answers = [(main(asked), capsys.readouterr()) for asked in (words, ["--", *words])]
    assert answers[0] == answers[1]
