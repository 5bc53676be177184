"""`holdfast downstream list`, `reset`, `hold` and `release`."""

from tests.cli.commands.shop import filled


def test_breakers_are_listed_with_the_jobs_that_wait_for_them(url, rows, data):
    filled(url, 0, 0, 0)
    (row,) = rows("downstream", "list")
    assert (row["name"], row["state"], row["held"], row["ready"]) == ("bank", "OPEN", "yes", "1")
    (record,) = data("downstream", "list")
    assert (record["cause"], record["trips"], record["lastError"]) == (
        "STREAK", 1, "GW_UNAVAILABLE",
    )  # fmt: skip


def test_a_breaker_is_held_released_and_reset_by_hand(url, run, data):
    filled(url, 1)
    assert run("downstream", "hold", "bank")[1] == "bank is OPEN, held by hand\n"
    (record,) = data("downstream", "list")
    assert (record["heldByHand"], record["openUntil"]) == (True, None)
    assert run("downstream", "release", "bank")[1] == "bank is HALF_OPEN\n"
    assert run("downstream", "reset", "bank")[1] == "bank is CLOSED\n"


def test_an_unknown_downstream_is_one_line_and_exit_code_2(empty, run):
    code, _, err = run("downstream", "reset", "bnak")
    assert (code, err) == (2, "holdfast: there is no downstream 'bnak'\n")
