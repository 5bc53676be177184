"""`holdfast top` where it prints once; `test_on_a_terminal` has the live screen."""

from tests.cli.commands.shop import filled


def test_it_prints_queues_breakers_and_workers_once_where_it_is_piped(url, run):
    filled(url, 0, 0, 0, letters=2)
    run("queues", "pause", "mail")
    code, out, _ = run("top")
    queues, breakers, workers = (part.splitlines() for part in out.split("\n\n"))
    assert code == 0
    assert [line.split("\t")[:3] for line in queues[1:]] == [
        ["default", "active", "1"], ["mail", "paused", "2"],
    ]  # fmt: skip
    assert breakers[1].split("\t")[:2] == ["bank", "OPEN"]
    assert workers == ["id\trunning\tfinish_requested_at"]


def test_json_has_the_same_in_one_object(url, data):
    filled(url, -1, letters=1)
    found = data("top")
    assert (found["unfinished"], found["deadLetters"], found["outboxPending"]) == (1, 1, 0)
    assert found["queues"][1]["oldest"] >= 0
    assert (found["breakers"], found["workers"]) == ([], [])


def test_an_interval_that_is_too_short_is_refused(url, run):
    code, _, err = run("top", "--interval", "0")
    assert (code, "at least 0.1" in err) == (2, True)
