"""The parent's side of a child that no longer answers."""

import asyncio
import socket

from tests.support import isolated
from tests.support.workers import claim

from holdfast.errors import ErrorCode
from holdfast.jobs.worker.isolation import process
from holdfast.jobs.worker.isolation.limits import ChildLimits
from holdfast.jobs.worker.isolation.process import ChildProcess
from holdfast.jobs.worker.run import Run
from holdfast.testing import VirtualClock


def test_a_child_that_lives_on_without_its_pipe_is_ended_and_not_blamed_for_memory(monkeypatch):
    monkeypatch.setattr(process, "_LAST_BREATH", 0.05)

    async def go():
        ours, theirs = socket.socketpair()
        theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        sleeper = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
        child = ChildProcess(sleeper, reader, writer, ChildLimits())
        run = Run(claim(), isolated.pid.kind, None, VirtualClock(), 300.0)
        trouble = await child.run(run)
        assert trouble.diagnosis.code is ErrorCode.UNKNOWN
        assert "closed its pipe" in trouble.message
        assert not child.usable
        await child.close()

    asyncio.run(go())
