"""Processes beside the server: ready, started again, and ended; tests/apps serves with one."""

import asyncio
import logging
import os
import re
import signal
import textwrap

import pytest
from tests.support.waiting import until

from holdfast.cli import sidecars as sidecars_module
from holdfast.cli.sidecars import Sidecars
from holdfast.clock import SYSTEM_CLOCK
from holdfast.http import Sidecar

MODULE = """
    import os
    import signal
    import sys
    import time

    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("begun", os.getpid(), flush=True)
    if "silent" not in sys.argv:
        print("listening on", os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Make a sidecar whose starts add its process id to a list."""
    (tmp_path / "beside_module.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sidecars_module, "_FIRST_WAIT", 0.01)

    def make(*words):
        pids = []
        ready = Sidecar(
            "helper",
            "beside_module",
            words,
            on_ready=lambda line: pids.append(int(line.split()[-1])),
        )
        return ready, pids

    return make


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_sidecar_is_ready_when_it_says_so_and_ends_with_the_block(beside):
    sidecar, pids = beside()

    async def go():
        async with Sidecars([sidecar], SYSTEM_CLOCK) as running:
            assert running.missing() is None
            assert lives(pids[0])
        assert not lives(pids[0])

    asyncio.run(go())


def test_a_sidecar_that_ends_is_started_again_and_is_missing_meanwhile(beside, caplog, monkeypatch):
    monkeypatch.setattr(sidecars_module, "_FIRST_WAIT", 0.5)
    sidecar, pids = beside()

    async def go():
        async with Sidecars([sidecar], SYSTEM_CLOCK) as running:
            os.kill(pids[0], signal.SIGKILL)
            await until(lambda: running.missing() == "the helper is not running")
            await until(lambda: len(pids) == 2 and running.missing() is None)
            assert lives(pids[1])

    with caplog.at_level(logging.WARNING, "holdfast.serve"):
        asyncio.run(go())
    [line] = [record.message for record in caplog.records]
    assert line == "the helper ended with status -9; started again in 0.5 s"


def test_a_sidecar_that_ignores_sigterm_is_killed(beside, monkeypatch):
    monkeypatch.setattr(sidecars_module, "_END_SECONDS", 0.1)
    sidecar, pids = beside("stubborn")

    async def go():
        async with Sidecars([sidecar], SYSTEM_CLOCK):
            pass
        assert not lives(pids[0])

    asyncio.run(go())


def test_a_sidecar_that_is_not_ready_in_time_is_not_waited_for(beside, monkeypatch, caplog):
    monkeypatch.setattr(sidecars_module, "_READY_SECONDS", 0.1)
    sidecar, pids = beside("silent")

    async def go():
        async with Sidecars([sidecar], SYSTEM_CLOCK) as running:
            assert running.missing() == "the helper is not running"

    asyncio.run(go())
    assert "the helper is not ready after 0.1 s" in caplog.text
    assert pids == []


def test_a_cancelled_start_ends_what_was_started(beside, caplog):
    sidecar, _ = beside("silent")

    async def go():
        running = Sidecars([sidecar], SYSTEM_CLOCK)
        starting = asyncio.create_task(running.__aenter__())
        begun = await until(lambda: re.search(r"begun (\d+)", caplog.text))
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not lives(int(begun[1]))

    with caplog.at_level(logging.INFO, "holdfast.serve"):
        asyncio.run(go())
