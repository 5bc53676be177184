"""A job that uses all memory: its child dies, the worker and other jobs survive."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest
from tests.support import isolated
from tests.support.workers import SOON

from holdfast import Engine, WorkerOptions
from holdfast.children import MEGABYTE, ChildLimits
from holdfast.errors import ErrorCode
from holdfast.jobs.model import JobStatus
from holdfast.jobs.worker.isolation.child_options import ChildOptions

GROUPS = Path("/sys/fs/cgroup")
ROOM = 64 * MEGABYTE


@pytest.fixture
def group():
    """A control group with little memory; the kernel kills processes that use more."""
    old = GROUPS / "memory"
    limits = {"memory.limit_in_bytes": ROOM, "memory.memsw.limit_in_bytes": ROOM}
    if not old.is_dir():
        old, limits = GROUPS, {"memory.max": ROOM, "memory.swap.max": 0}
    made = old / f"holdfast-test-{os.getpid()}"
    first, second = limits.items()
    try:
        made.mkdir()
        (made / first[0]).write_text(str(first[1]), "ascii")
    except OSError as error:
        with contextlib.suppress(OSError):
            made.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    with contextlib.suppress(OSError):  # a kernel that does not count swap has no such file
        (made / second[0]).write_text(str(second[1]), "ascii")
    yield made
    made.rmdir()


def grown(url, limits, args):
    """Run a job that uses up memory and one that does not; return both when finished."""
    options = WorkerOptions(
        concurrency=2, poll_interval=0.05, maintenance=None, child=ChildOptions(limits=limits)
    )

    async def go():
        async with Engine(url, apps=[isolated.memory_app]) as engine:
            hungry = await engine.enqueue(isolated.grow, args)
            modest = await engine.enqueue(isolated.echo, "x")
            async with asyncio.timeout(2 * SOON):
                await engine.work(until_idle=True, options=options)
            return await engine.get(hungry), await engine.get(modest)

    return asyncio.run(go())


def judged(hungry, modest):
    assert (hungry.status, hungry.attempt_count) == (JobStatus.FAILED, 1)
    assert (hungry.error.code, hungry.dead_letter) == (ErrorCode.MEMORY_ERROR, "permanent")
    assert modest.status is JobStatus.COMPLETE


def test_a_job_that_reaches_its_limit_fails_for_want_of_memory(url):
    judged(*grown(url, ChildLimits(memory_bytes=256 * MEGABYTE), ""))


def test_a_job_that_the_kernel_kills_fails_for_want_of_memory(url, group):
    hungry, modest = grown(url, ChildLimits(memory_bytes=None), str(group))
    judged(hungry, modest)
    assert "killed" in hungry.error.message
