"""A function in confined children: its answers, its bounds and what breaks it."""

import asyncio
import json
import os
import time

import pytest

from holdfast.children import (
    BrokenFrame,
    ChildDied,
    ChildFailed,
    ChildLimits,
    ConfinedFunction,
    Death,
    FrameKind,
    json_answer,
    request_server,
)
from holdfast.clock import SYSTEM_CLOCK

TARGET = f"{__name__}:load"
LIMITS = ChildLimits(file_bytes=1000, open_files=8)


def load(name):
    """Answer with the request, the data and whether a file may be opened; a child calls this."""

    def answer(request, files):
        if request == "die":
            os.abort()
        if request == "hang":
            time.sleep(600)
        data = os.pread(files[0], 1_000_000, 0) if files else b""
        try:
            os.open(__file__, os.O_RDONLY)
            opened = True
        except PermissionError:
            opened = False
        return json.dumps([name, request, len(data), opened, os.getpid()])

    return request_server(answer)


def use(scenario, target=TARGET, **options):
    async def go():
        function = ConfinedFunction(
            target, SYSTEM_CLOCK, limits=LIMITS, options="f", **({"call_seconds": 30.0} | options)
        )
        try:
            return await scenario(function)
        finally:
            await function.aclose()
            assert function.pids() == []

    return asyncio.run(go())


def fields(_child, said):
    return said


def test_a_call_has_its_request_and_its_data_and_opens_no_file():
    async def scenario(function):
        assert function.pids() == []
        found = [await function.call("x", fields, data) for data in (None, b"ab", bytes(200_000))]
        assert function.pids() == [found[0][-1]]
        return [each[:-1] for each in found]

    said = [["f", "x", length, False] for length in (0, 2, 200_000)]
    assert use(scenario) == said


def test_calls_beyond_the_bound_wait_for_a_child():
    async def scenario(function):
        calls = [function.call("x", fields) for _ in range(4)]
        return {said[-1] for said in await asyncio.gather(*calls)}

    assert len(use(scenario, children=1)) == 1
    assert len(use(scenario)) == 4


def test_a_call_that_dies_or_takes_too_long_breaks_only_itself():
    async def scenario(function):
        with pytest.raises(ChildDied) as died:
            await function.call("die", fields, b"data")
        assert died.value.death is Death.SIGNAL
        with pytest.raises(TimeoutError):
            await function.call("hang", fields)
        assert (await function.call("x", fields))[1] == "x"

    use(scenario, call_seconds=2.0)


def test_a_function_that_cannot_be_loaded_is_an_error_of_the_call():
    async def scenario(function):
        with pytest.raises(ChildFailed, match="nothing_here"):
            await function.call("x", fields)

    use(scenario, target="nothing_here:load")


@pytest.mark.parametrize(
    "body", ["{", "[]", '{"other": 1}', '{"n": "x"}', '{"n": null}', "[" * 99999]
)
def test_an_answer_without_its_fields_is_broken(body):
    read = json_answer(lambda _child, said: int(said["n"]))
    assert read(None, FrameKind.ANSWER, '{"n": 1}') == 1
    with pytest.raises(BrokenFrame):
        read(None, FrameKind.ANSWER, body)
    with pytest.raises(BrokenFrame):
        read(None, FrameKind.ERROR, {"n": 1})
