"""Commands on a real terminal: tables, colours, questions, Ctrl-C, and `holdfast top`."""

import subprocess
import sys

from tests.cli.commands.shop import filled, with_engine
from tests.cli.terminal import Terminal


def test_a_list_is_a_table_on_a_terminal_and_tsv_in_a_pipe(url):
    (declined,) = filled(url, -1)
    narrow = Terminal("jobs", "list", columns=70)
    assert narrow.wait() == 0
    assert declined in narrow.output  # whole, though the table is wider than the terminal
    assert "\t" not in narrow.output
    assert "\x1b[1mid" in narrow.output
    assert "\x1b[31m" in narrow.output  # red: it has failed

    piped = subprocess.run(
        [sys.executable, "-m", "holdfast", "jobs", "list"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert piped.stdout.splitlines()[1].split("\t")[:2] == [declined, "failed"]
    assert "\x1b" not in piped.stdout


def test_no_color_is_honoured(url):
    filled(url, -1)
    plain = Terminal("jobs", "list", NO_COLOR="1")
    assert plain.wait() == 0
    assert "failed" in plain.output
    assert "\x1b[3" not in plain.output


def test_a_requeue_asks_and_ctrl_c_leaves_the_rest_as_dead_letters(url):
    filled(url, *[-1] * 40)
    asked = Terminal("dead", "requeue", "--rate", "2")
    asked.until("requeue 40 dead letters? [y/N]")
    asked.type("y\n")
    asked.until("requeued")  # the bar, which appears after a second
    asked.type("\x03")
    assert asked.wait() == 130
    assert "requeued; run it again for the rest" in asked.output

    async def left(engine):
        return (await engine.stats()).dead_letters

    assert 0 < with_engine(url, left) < 40


def test_top_follows_the_size_of_the_terminal_and_ends_with_q(url):
    filled(url, 0, 0, letters=3)
    top = Terminal("top", "--interval", "0.1", columns=100)
    top.until("bank")
    top.until("in 0.0/s")
    top.resize(40, 10)
    top.until("q ends")
    top.type("q")
    assert top.wait() == 0
    assert top.output.rstrip().endswith("\x1b[?1049l")  # the screen of before is back


def test_top_ends_with_ctrl_c_and_leaves_the_terminal_as_it_was(url):
    filled(url, letters=1)
    top = Terminal("top", "--interval", "0.1")
    top.until("q ends")
    top.type("\x03")
    assert top.wait() == 130
    assert top.output.rstrip().endswith("\x1b[?1049l")
