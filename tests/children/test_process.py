"""One child process: its start, its answers, its limits and its death."""

import asyncio
import os
import platform
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.children import ChildDied, ChildFailed, ChildLimits, ChildProcess, ChildSpec, Death
from holdfast.children import process as process_module
from holdfast.children.frames import FrameKind
from holdfast.children.process import ChildLost

SPEC = ChildSpec("tests.support.child_handlers:load", "plain", ChildLimits(output_bytes=1000))


def use(scenario, spec=SPEC):
    async def go():
        child = await ChildProcess.start(spec)
        try:
            return await scenario(child)
        finally:
            await child.close()

    return asyncio.run(go())


def test_requests_are_answered_one_after_the_other():
    async def scenario(child):
        for text in ("one", "two"):
            assert await child.call({"echo": text}) == (FrameKind.ANSWER, f"plain {text}")
        assert child.usable

    use(scenario)


def test_open_files_are_handed_over(tmp_path):
    async def scenario(child):
        (tmp_path / "in").write_text("content", "ascii")
        with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
            files = [source.fileno(), target.fileno()]
            assert await child.call({"copy": 1}, files) == (FrameKind.ANSWER, "7")
        assert (tmp_path / "out").read_text("ascii") == "content"
        assert await child.call({"files": 1}) == await child.call({"files": 1})

    use(scenario)


@pytest.mark.parametrize(
    "request_, death, detail",
    [
        ({"signal": signal.SIGSEGV}, Death.SIGNAL, "SIGSEGV"),
        ({"signal": signal.SIGTERM}, Death.TERMINATED, "SIGTERM"),
        ({"signal": signal.SIGKILL}, Death.KILLED, "SIGKILL"),
        ({"exit": 5}, Death.EXIT, "status 5"),
        ({"echo": "x" * 2000}, Death.BROKEN_FRAME, "1000 are allowed"),
        ({"say": "?"}, Death.BROKEN_FRAME, "unknown kind"),
        ({"detach": 1}, Death.DETACHED, "closed its socket"),
    ],
)
def test_the_death_of_a_child_has_its_reason(monkeypatch, request_, death, detail):
    if death is Death.DETACHED:
        monkeypatch.setattr(process_module, "_END_SECONDS", 0.1)

    async def scenario(child):
        with pytest.raises(ChildDied) as died:
            await child.call(request_)
        assert (died.value.death, detail in died.value.detail) == (death, True)
        assert not child.usable

    use(scenario)


def test_processor_time_is_limited():
    async def scenario(child):
        with pytest.raises(ChildDied) as died:
            await child.call({"burn": 1})
        assert died.value.death is Death.CPU_TIME

    use(scenario, replace(SPEC, limits=ChildLimits(cpu_seconds=0.5)))


def test_a_child_that_takes_too_long_is_killed():
    async def scenario(child):
        with pytest.raises(TimeoutError):
            await child.call({"sleep": 600}, timeout=0.2)
        assert not child.usable

    use(scenario)


def test_a_child_that_dies_before_it_has_the_request_is_lost():
    async def scenario(child):
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(ChildLost):
            await child.call({"echo": "x"})

    use(scenario)


def test_a_child_is_used_for_as_many_requests_as_allowed():
    async def scenario(child):
        await child.call({"echo": "x"})
        assert child.usable
        await child.call({"echo": "x"})
        assert not child.usable

    use(scenario, replace(SPEC, limits=ChildLimits(requests=2)))


def test_a_confined_child_opens_no_file_and_sees_no_secret(monkeypatch):
    monkeypatch.setenv("A_SECRET", "hidden")

    async def scenario(child):
        assert child.confined
        assert await child.call({"environment": "A_SECRET"}) == (FrameKind.ANSWER, "None")
        assert await child.call({"open": __file__}) == (FrameKind.ANSWER, "PermissionError")

    use(scenario, replace(SPEC, confine=True))


def test_threads_that_libraries_started_before_are_confined_too():
    async def scenario(child):
        assert child.confined
        answer = await child.call({"open in the early thread": __file__})
        assert answer == (FrameKind.ANSWER, "PermissionError")

    use(scenario, replace(SPEC, options="with a thread", confine=True))


def status_of(pid):
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return dict(line.split(":\t", 1) for line in lines)


def test_a_confined_child_has_no_capabilities_even_of_root():
    async def scenario(child):
        status = status_of(child.pid)
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(status[name], 16) == 0, name
        if os.geteuid() == 0:
            assert int(status["CapBnd"], 16) == 0
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")

    use(scenario, replace(SPEC, confine=True))


# open_by_handle_at, add_key, memfd_create, inotify_init1, mq_open, shmget: the list of what is
# refused had none of them.
@pytest.mark.parametrize(
    "number, arguments",
    {
        "x86_64": [(304, (0, "x" * 64, 0)), (248, ("user", "a", "b", 1, -3)), (319, ("a", 0)),
                   (294, (0,)), (240, ("/a", 66, 384, 0)), (29, (0, 4096, 512))],
        "aarch64": [(265, (0, "x" * 64, 0)), (217, ("user", "a", "b", 1, -3)), (279, ("a", 0)),
                    (26, (0,)), (180, ("/a", 66, 384, 0)), (194, (0, 4096, 512))],
    }[platform.machine()],
)  # fmt: skip
def test_a_confined_child_makes_no_system_call_that_is_not_allowed(number, arguments):
    async def scenario(child):
        answer = await child.call({"system call": [number, *arguments]})
        assert answer == (FrameKind.ANSWER, "EPERM")

    use(scenario, replace(SPEC, confine=True))


def test_a_start_without_the_filter_says_so_once_and_goes_on(caplog):
    process_module._warn_of_no_filter.cache_clear()

    async def scenario(child):
        assert not child.confined
        assert await child.call({"echo": "x"}) == (FrameKind.ANSWER, "without a filter x")

    for _ in range(2):
        use(scenario, replace(SPEC, options="without a filter", confine=True))
    assert [record.message for record in caplog.records] == [
        "child processes have resource limits only: this system refuses the filter of system calls"
    ]


def test_a_child_that_is_not_confined_has_its_parents_environment(monkeypatch):
    monkeypatch.setenv("A_SECRET", "hidden")

    async def scenario(child):
        assert not child.confined
        assert await child.call({"environment": "A_SECRET"}) == (FrameKind.ANSWER, "hidden")
        assert await child.call({"open": __file__}) == (FrameKind.ANSWER, "opened")

    use(scenario)


@pytest.mark.parametrize(
    "spec, says",
    [
        (replace(SPEC, start_seconds=0.001), "did not start in 0.001 s"),
        (replace(SPEC, target="tests.support.no_such:load"), "ModuleNotFoundError"),
        (replace(SPEC, options="fail"), "could not start: ValueError: as asked"),
        (replace(SPEC, options="exit"), "ended while it started"),
    ],
)
def test_a_child_that_cannot_start_has_a_reason(spec, says):
    with pytest.raises(ChildFailed, match=says):
        asyncio.run(ChildProcess.start(spec))


def test_a_child_that_lives_on_without_its_socket_is_ended(monkeypatch):
    monkeypatch.setattr(process_module, "_END_SECONDS", 0.05)

    async def go():
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        sleeper = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
        child = ChildProcess(sleeper, reader, writer, ours, ChildLimits())
        theirs.sendall(b"K\0\0\0\x04null")
        theirs.close()
        with pytest.raises((ChildDied, ChildLost)):
            await child.call(None)
        assert not child.usable
        await child.close()
        return sleeper.returncode

    assert asyncio.run(go()) == -signal.SIGKILL
