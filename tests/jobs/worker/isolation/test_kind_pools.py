"""Child processes: limits, deaths, progress, cancellation and reuse."""

import asyncio
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.support import isolated
from tests.support.processes import is_alive
from tests.support.workers import QUICK, SOON, rig

from holdfast.children import MEGABYTE, ChildLimits
from holdfast.clock import SYSTEM_CLOCK
from holdfast.errors import ErrorCode
from holdfast.jobs.exceptions import ChildError
from holdfast.jobs.job_events import AttemptFinished, JobClaimed
from holdfast.jobs.worker.isolation.child_options import ChildOptions
from holdfast.jobs.worker.isolation.kind_pools import KindPools

LIMITS = ChildLimits(memory_bytes=512 * MEGABYTE, cpu_seconds=1, output_bytes=100_000)


def app_of(*jobs):
    """Return an app of only these jobs, so that no other children are started."""
    return SimpleNamespace(kinds=tuple(job.kind for job in jobs))


def alone(tmp_path, *jobs, limits=LIMITS, **options):
    child = options.pop("child", ChildOptions(limits=limits))
    return rig(tmp_path, app_of(*jobs), replace(QUICK, child=child), **options)


async def gone(*pids):
    async with asyncio.timeout(SOON):
        while any(is_alive(pid) for pid in pids):
            await asyncio.sleep(0.01)


async def written(path):
    async with asyncio.timeout(SOON):
        while not path.exists() or not path.read_text("ascii"):
            await asyncio.sleep(0.01)
    return path.read_text("ascii")


def test_children_are_used_again_and_end_with_the_worker(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.pid, concurrency=1) as it:
            await it.enqueue(isolated.pid, *(f"j{n}" for n in range(5)))
            await it.run()
            pids = {(await it.store.get(f"j{n}")).result for n in range(5)}
            assert len(pids) <= 2  # the prepared child, and one requested before it was ready
            assert str(os.getpid()) not in pids
            await gone(*map(int, pids))

    asyncio.run(go())


def test_a_child_is_replaced_after_so_many_jobs(tmp_path):
    async def go():
        limits = replace(LIMITS, requests=1)
        async with alone(tmp_path, isolated.pid, limits=limits, concurrency=1) as it:
            await it.enqueue(isolated.pid, "a", "b", "c")
            await it.run()
            assert len({(await it.store.get(job)).result for job in "abc"}) == 3

    asyncio.run(go())


def test_arguments_attempt_and_key_reach_an_async_handler(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.echo) as it:
            await it.enqueue(isolated.echo, "j", arguments='"grüße"')
            await it.run()
            assert (await it.store.get("j")).result == '"grüße 1 memory.echo:j"'

    asyncio.run(go())


@pytest.mark.parametrize(
    "what, outcome, code, wait",
    [
        ("permanent", "failed", ErrorCode.PARSE_ERROR, None),
        ("later", "retry", ErrorCode.GW_UNAVAILABLE, 7.0),
        ("exit", "retry", ErrorCode.UNKNOWN, None),
        ("refused", "retry", ErrorCode.GW_UNAVAILABLE, None),
    ],
)
def test_the_error_of_a_handler_is_classified_as_in_the_worker(tmp_path, what, outcome, code, wait):
    async def go():
        async with alone(tmp_path, isolated.fail) as it:
            await it.enqueue(isolated.fail, "j", arguments=f'"{what}"')
            await it.run()
            (attempt,) = await it.store.attempts("j")
            assert (attempt.outcome, attempt.error.code) == (outcome, code)
            assert wait is None or attempt.retry_after == wait

    asyncio.run(go())


@pytest.mark.parametrize(
    "how, code, says",
    [
        ("segv", ErrorCode.UNKNOWN, "SIGSEGV"),
        ("kill", ErrorCode.MEMORY_ERROR, "memory"),
        ("exit", ErrorCode.UNKNOWN, "status 5"),
    ],
)
def test_a_childs_death_is_the_attempts_failure_and_never_the_workers(tmp_path, how, code, says):
    async def go():
        async with alone(tmp_path, isolated.die, isolated.echo) as it:
            await it.enqueue(isolated.die, "dies", arguments=f'"{how}"')
            await it.enqueue(isolated.echo, "lives", arguments='"x"')
            await it.run()
            job = await it.store.get("dies")
            assert (job.status, job.error.code) == ("failed", code)
            assert says in job.error.message
            assert await it.status("lives") == "complete"

    asyncio.run(go())


@pytest.mark.parametrize("how, says", [("shut", "closed its pipe"), ("close", "ended itself")])
def test_a_child_that_closes_its_pipe_is_not_blamed_for_memory(tmp_path, how, says):
    async def go():
        async with alone(tmp_path, isolated.hang_up) as it:
            await it.enqueue(isolated.hang_up, "h", arguments=f'"{how}"')
            await it.run()
            error = (await it.store.get("h")).error
            assert (error.code, says in error.message) == (ErrorCode.UNKNOWN, True)

    asyncio.run(go())


def test_memory_is_limited(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.hog) as it:
            await it.enqueue(isolated.hog, "h")
            await it.run()
            assert (await it.store.get("h")).error.code is ErrorCode.MEMORY_ERROR

    asyncio.run(go())


def test_processor_time_is_limited(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.burn) as it:
            await it.enqueue(isolated.burn, "b")
            await it.run()
            job = await it.store.get("b")
            assert (job.error.code, job.dead_letter) == (ErrorCode.TIMEOUT, "permanent")
            assert "processor time" in job.error.message

    asyncio.run(go())


def test_a_timeout_kills_the_child_and_its_processes(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.hang) as it:
            await it.enqueue(isolated.hang, "h", arguments=f'"{tmp_path / "pids"}"')
            await it.run()
            job = await it.store.get("h")
            assert (job.error.code, job.dead_letter) == (ErrorCode.TIMEOUT, "attempts_exhausted")
            await gone(*(tmp_path / "pids").read_text("ascii").split())

    asyncio.run(go())


def test_a_result_is_limited_in_size_and_prints_do_not_disturb_it(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.shout) as it:
            await it.enqueue(isolated.shout, "small", arguments="10")
            await it.enqueue(isolated.shout, "large", arguments="100000")
            await it.run()
            assert (await it.store.get("small")).result == '"xxxxxxxxxx"'
            assert (await it.store.get("large")).error.code is ErrorCode.TOO_LARGE

    asyncio.run(go())


def test_progress_crosses_the_pipe(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.report) as it:
            await it.enqueue(isolated.report, "r", arguments=f'"{tmp_path / "go on"}"')
            async with it.running():
                async with asyncio.timeout(SOON):
                    while (await it.store.get("r")).progress is None:
                        await asyncio.sleep(0.01)
                job = await it.store.get("r")
                assert (job.progress, job.progress_note) == (0.5, "half")
                (tmp_path / "go on").touch()
                await it.until("r", "complete")

    asyncio.run(go())


@pytest.mark.parametrize("kind", [isolated.wait_async, isolated.wait_blocking])
def test_a_request_to_cancel_crosses_the_pipe(tmp_path, kind):
    async def go():
        path = tmp_path / "started"
        async with alone(tmp_path, kind, lease_seconds=5, extend_every=0.05) as it:
            await it.enqueue(kind, "w", arguments=f'"{path}"')
            async with it.running():
                async with asyncio.timeout(SOON):
                    while not path.exists():
                        await asyncio.sleep(0.01)
                await it.store.cancel("w")
                await it.until("w", "cancelled")
            if kind is isolated.wait_async:
                assert path.read_text("ascii") == "requested"

    asyncio.run(go())


def test_a_child_that_ignores_the_shutdown_is_killed_and_its_job_released(tmp_path):
    async def go():
        path = tmp_path / "pid"
        async with alone(tmp_path, isolated.deaf, shutdown_seconds=0.4) as it:
            await it.enqueue(isolated.deaf, "d", arguments=f'"{path}"')
            async with it.running():
                pid = await written(path)
            assert await it.outcomes("d") == ["released"]
            await gone(pid)

    asyncio.run(go())


def test_a_job_that_is_stopped_while_its_child_starts_is_released(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.deaf) as it:
            await it.enqueue(isolated.deaf, "d", arguments='"unused"')
            task = asyncio.create_task(it.worker.run())
            await it.told.wait(JobClaimed)
            it.worker.stop()
            it.worker.stop()
            async with asyncio.timeout(SOON):
                await task
            assert await it.outcomes("d") == ["released"]

    asyncio.run(go())


def test_an_existing_result_is_asked_for_in_the_child(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.again) as it:
            await it.enqueue(isolated.again, "a")
            await it.run()
            job = await it.store.get("a")
            assert (job.result, job.attempt_count) == ('"from before"', 2)

    asyncio.run(go())


def test_idle_children_are_ended(tmp_path):
    async def go():
        child = ChildOptions(limits=LIMITS, idle_seconds=0.1)
        async with alone(tmp_path, isolated.pid, child=child) as it:
            await it.enqueue(isolated.pid, "p")
            async with it.running():
                await it.until("p", "complete")
                await gone((await it.store.get("p")).result)

    asyncio.run(go())


def test_a_child_that_cannot_start_is_the_attempts_failure(tmp_path):
    async def go():
        child = ChildOptions(limits=LIMITS, start_seconds=0.001)
        async with alone(tmp_path, isolated.echo, child=child) as it:
            await it.enqueue(isolated.echo, "e", arguments='"x"')
            await it.run()
            job = await it.store.get("e")
            assert "did not start" in job.error.message

    asyncio.run(go())


def test_a_kind_that_no_child_can_find_is_refused_when_the_worker_is_made():
    local = isolated.inside()
    with pytest.raises(ValueError, match="top level"):
        KindPools({kind.name: kind for kind in local.kinds}, ChildOptions(), SYSTEM_CLOCK)


def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    async def go():
        script = (
            "import asyncio, sys\n"
            "from pathlib import Path\n"
            "from tests.jobs.worker.isolation.test_kind_pools import run_deaf\n"
            "asyncio.run(run_deaf(Path(sys.argv[1])))\n"
        )
        import sys

        parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(tmp_path))
        pid = await written(tmp_path / "pid")
        parent.kill()
        await parent.wait()
        await gone(pid)

    asyncio.run(go())


async def run_deaf(folder):
    async with alone(folder, isolated.deaf) as it:
        await it.enqueue(isolated.deaf, "d", arguments=f'"{folder / "pid"}"')
        await it.worker.run()


def test_workers_take_their_limits_by_kind():
    options = ChildOptions(by_kind={"values.pid": ChildLimits(requests=1)})
    assert options.limits_of("values.pid").requests == 1
    assert options.limits_of("other") == ChildLimits()


def test_the_traceback_of_a_child_is_stored_and_its_event_has_an_error(tmp_path, caplog):
    async def go():
        async with alone(tmp_path, isolated.fail) as it:
            await it.enqueue(isolated.fail, "p", arguments='"permanent"')
            await it.run()
            (event,) = it.told.of(AttemptFinished)
            (attempt,) = await it.store.attempts("p")
            return event, attempt

    event, attempt = asyncio.run(go())
    assert attempt.traceback.endswith("holdfast.errors.Permanent: no good")
    assert "in fail" in attempt.traceback
    assert "attempts.py" not in attempt.traceback
    assert isinstance(event.error, ChildError)
    assert (event.error.code, str(event.error)) == ("PARSE_ERROR", "no good")
    assert event.error.traceback == attempt.traceback
    assert attempt.traceback in caplog.text


def test_a_child_that_died_has_an_error_without_a_traceback(tmp_path):
    async def go():
        async with alone(tmp_path, isolated.die) as it:
            await it.enqueue(isolated.die, "d", arguments='"exit"', max_attempts=1)
            await it.run()
            (event,) = it.told.of(AttemptFinished)
            (attempt,) = await it.store.attempts("d")
            return event, attempt

    event, attempt = asyncio.run(go())
    assert isinstance(event.error, ChildError)
    assert "child process" in str(event.error)
    assert (event.error.traceback, attempt.traceback) == (None, None)
