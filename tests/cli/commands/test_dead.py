"""`holdfast dead list`, `show`, `requeue` and `discard`."""

import json
import sys

from tests.cli.commands.shop import filled, with_engine

from holdfast.jobs.client.dead_letters import DeadLetters


def dead(url):
    async def look(engine):
        return sorted(letter.job.id for letter in (await engine.dead_letters.list())[0])

    return with_engine(url, look)


def test_dead_letters_are_listed_newest_first_and_counted_by_group(url, rows, run):
    first, second, lost = filled(url, -1, -2, 0)
    assert {row["id"] for row in rows("dead", "list")} == {first, second, lost}
    assert [row["id"] for row in rows("dead", "list", "--error", "no bank")] == [lost]
    largest, _ = rows("dead", "list", "--groups")
    assert (largest["count"], largest["code"]) == ("2", "CARD_DECLINED")
    of_group = rows("dead", "list", "--group", largest["message"])
    assert {row["id"] for row in of_group} == {first, second}
    assert "--groups counts all" in run("dead", "list", "--limit", "1")[2]


def test_only_a_dead_letter_is_shown(url, run, data):
    declined, done = filled(url, -1, 1)
    assert data("dead", "show", declined)["deadLetter"] == "permanent"
    code, _, err = run("dead", "show", done)
    assert (code, err) == (1, f"holdfast: job {done} is complete and not a dead letter\n")


def test_a_requeue_is_counted_by_a_dry_run_and_needs_yes_without_a_terminal(url, run, data):
    letters = filled(url, -1, -2)
    assert run("dead", "requeue", "--dry-run")[1] == "would requeue 2 dead letters\n"
    code, _, err = run("dead", "requeue")
    assert code == 2
    assert "requeue 2 dead letters? Add --yes" in err
    assert dead(url) == sorted(letters)
    assert data("dead", "requeue", "--yes") == {
        "matched": 2, "requeued": 2, "skipped": {}, "dryRun": False,
    }  # fmt: skip
    assert dead(url) == []


def test_only_what_matches_is_requeued(url, run):
    declined, lost = filled(url, -1, 0)
    assert run("dead", "requeue", "--error", "CARD_DECLINED", "--yes")[0] == 0
    assert dead(url) == [lost]
    assert run("dead", "requeue", lost, declined)[:2] == (1, "requeued 1 dead letter\n")
    assert dead(url) == []


def test_a_person_at_a_terminal_is_asked_and_may_decline(url, run, monkeypatch):
    letters = filled(url, -1)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda question, err: question.startswith("requeue"))
    assert run("dead", "discard")[0] == 1
    assert dead(url) == letters
    assert run("dead", "requeue")[0] == 0
    assert dead(url) == []


def test_the_rate_is_kept_and_0_sets_none(url, run, monkeypatch):
    filled(url, -1)
    rates = []
    requeue = DeadLetters.requeue

    def noted(self, where, **options):
        rates.append(options["rate"])
        return requeue(self, where, **options)

    monkeypatch.setattr(DeadLetters, "requeue", noted)
    run("dead", "requeue", "--dry-run")
    run("dead", "requeue", "--dry-run", "--rate", "0")
    assert rates == [100.0, None]
    assert run("dead", "requeue", "--rate", "-1")[0] == 2


def test_an_interrupted_requeue_says_how_far_it_came(url, run, monkeypatch):
    filled(url, -1, -2)

    async def interrupted(self, where, *, progress, dry_run, rate):
        from holdfast.jobs.client.dead_letters import Requeued

        progress(Requeued(2, 2 if dry_run else 1))
        if not dry_run:
            raise KeyboardInterrupt
        return Requeued(2, 2, {}, dry_run)

    monkeypatch.setattr(DeadLetters, "requeue", interrupted)
    code, _, _ = run("dead", "requeue", "--yes")
    assert code == 130


def test_with_the_app_its_before_retry_is_asked_and_what_it_refuses_is_skipped(url, run):
    unlucky, _ = filled(url, -13, -1)
    assert run("dead", "requeue", "--dry-run")[1] == "would requeue 2 dead letters\n"
    code, out, _ = run("dead", "requeue", "--yes", "--app", "tests.cli.commands.shop:app")
    assert (code, out) == (0, "requeued 1 dead letter; skipped: 1 UNLUCKY\n")
    assert dead(url) == [unlucky]


def test_discarded_letters_stay_failed_jobs(url, run, rows, data):
    first, second = filled(url, -1, 0)
    assert run("dead", "discard", "--dry-run")[1] == "would discard 2 dead letters\n"
    assert run("dead", "discard")[0] == 2
    assert run("dead", "discard", first, "nobody", "--yes") == (
        1, "discarded 1 dead letter\n",
        "holdfast: 1 of the ids are not those of dead letters\n",
    )  # fmt: skip
    assert dead(url) == [second]
    assert data("dead", "discard", "--yes") == {"matched": 1, "discarded": 1, "dryRun": False}
    assert {row["status"] for row in rows("jobs", "list")} == {"failed"}
    assert json.loads(run("dead", "list", "--json")[1]) == []
