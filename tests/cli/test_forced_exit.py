"""The end by force: when it comes and its exit code; tests/cli/test_stopping.py ends processes."""

import asyncio
import logging
import os
import queue
import threading

import pytest
from tests.support.waiting import SOON

from holdfast.cli import forced_exit
from holdfast.cli.forced_exit import HANDLERS_LEFT, JOBS_LEFT, ForcedExit, run_worker


class Ended(BaseException):
    """In place of the end of the process."""


@pytest.fixture
def exits(monkeypatch):
    """The exit codes with which the process would have ended."""
    codes = queue.Queue()

    def end(code):
        codes.put(code)
        if threading.current_thread() is threading.main_thread():
            raise Ended

    monkeypatch.setattr(os, "_exit", end)
    return codes


class Ran:
    def __init__(self, *, unreported=0, running=0, unfinished_lifespans=0):
        self.unreported, self.running = unreported, running
        self.unfinished_lifespans = unfinished_lifespans


@pytest.mark.parametrize("code", [JOBS_LEFT, HANDLERS_LEFT])
def test_a_process_that_was_asked_to_end_is_ended_when_its_time_is_over(exits, code, caplog):
    with ForcedExit(0.01) as forced:
        forced.code = code
        forced.begin()
        forced.begin()
        assert exits.get(timeout=SOON) == code
    assert len(caplog.records) == 1


def test_a_process_that_was_asked_to_end_is_ended_even_after_the_block(exits):
    with ForcedExit(0.01) as forced:
        forced.begin()
    assert exits.get(timeout=SOON) == JOBS_LEFT


def test_a_process_that_was_not_asked_to_end_goes_on(exits):
    with ForcedExit(0.01):
        [thread] = [each for each in threading.enumerate() if each.name == "holdfast-exit"]
    thread.join(SOON)
    assert not thread.is_alive()
    assert exits.empty()


def test_a_log_that_is_blocked_delays_the_end_for_a_moment_only(exits, monkeypatch):
    monkeypatch.setattr(forced_exit, "_LAST_LINE", 0.01)
    handler, held = logging.StreamHandler(), threading.Event()
    log = logging.getLogger("holdfast.worker")
    monkeypatch.setattr(log, "handlers", [handler])
    ended = threading.Event()

    def hold():
        with handler.lock:
            held.set()
            ended.wait(SOON)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(SOON)
        with ForcedExit(0.0) as forced:
            forced.begin()
            assert exits.get(timeout=SOON) == JOBS_LEFT
    finally:
        ended.set()
        holder.join()


@pytest.mark.parametrize(
    ("worker", "code"),
    [
        (Ran(unreported=1, running=1), JOBS_LEFT),
        (Ran(running=1), HANDLERS_LEFT),
        (Ran(unfinished_lifespans=1), HANDLERS_LEFT),
    ],
)
def test_a_worker_that_left_something_ends_the_process(exits, worker, code):
    loops = []

    async def main():
        loops.append(asyncio.get_running_loop())
        return worker

    with pytest.raises(Ended):
        run_worker(main(), ForcedExit(1.0))
    assert exits.get_nowait() == code
    loops[0].close()


@pytest.mark.parametrize("worker", [None, Ran()])
def test_a_worker_that_left_nothing_ends_in_an_orderly_way(exits, worker):
    async def main():
        return worker

    forced = ForcedExit(1.0)
    assert run_worker(main(), forced) == 0
    # The interpreter may still wait for threads of handlers.
    assert forced.code == HANDLERS_LEFT
    assert exits.empty()


def test_an_error_of_the_worker_is_raised_and_its_loop_is_closed(exits):
    loops = []

    async def fail():
        loops.append(asyncio.get_running_loop())
        raise ValueError("as asked")

    with pytest.raises(ValueError, match="as asked"):
        run_worker(fail(), ForcedExit(1.0))
    assert loops[0].is_closed()
    assert exits.empty()
