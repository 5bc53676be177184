"""The screen of `holdfast top`; `test_on_a_terminal` has the live one."""

import asyncio

import pytest
from rich.console import Console
from tests.cli.commands.shop import filled, with_engine

from holdfast.cli.fleet_snapshot import FleetSnapshot, Rates
from holdfast.cli.top_screen import screen, show_until_quit
from holdfast.jobs.store_port import StoreUnavailable


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/work.db"


def drawn(snapshot, height):
    console = Console(width=100)
    with console.capture() as captured:
        console.print(screen("the store", snapshot, Rates(1.0, 0.5, 0.25), height))
    return captured.get()


def test_rates_queues_and_breakers_are_drawn_and_ages_have_a_unit(url):
    filled(url, 0, 0, letters=1)
    shown = drawn(with_engine(url, FleetSnapshot.read), 30)
    assert "in 1.0/s  done 0.5/s  failed 0.2/s" in shown
    assert "bank" in shown
    assert "OPEN" in shown
    assert " s " in shown.partition("mail")[2]


def test_a_low_terminal_says_how_many_rows_it_leaves_out(url):
    filled(url, 1, letters=1)
    shown = drawn(with_engine(url, FleetSnapshot.read), 10)
    assert "default" in shown
    assert "and 1 more" in shown


def test_while_the_store_does_not_answer_the_screen_says_so(url, capsys, monkeypatch):
    answers = [StoreUnavailable("the disk is away"), asyncio.CancelledError()]

    async def read(engine):
        raise answers.pop(0)

    monkeypatch.setattr(FleetSnapshot, "read", read)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the captured output for a terminal
    with pytest.raises(asyncio.CancelledError):
        with_engine(url, lambda engine: show_until_quit(engine, 0.01))
    assert "the disk is away" in capsys.readouterr().out
