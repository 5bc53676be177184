"""Every command of the runbook, run as it stands there."""

import asyncio
import re
import shlex
import threading
from pathlib import Path

import pytest
from tests.support.waiting import SOON

from holdfast import App, Downstream, Engine, JobContext, Permanent, RetryPolicy
from holdfast.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "runbook.md"
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for line in block.splitlines()
]

app = App("runbook")


@app.job(downstream=Downstream("gateway"), retry=RetryPolicy(max_attempts=1))
async def send(ctx: JobContext, code: str) -> None:
    raise Permanent(code, "it was refused")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with dead letters and a running worker; yields its URL and the id of a job."""
    url = f"sqlite:///{tmp_path_factory.mktemp('runbook') / 'work.db'}"
    ready, stop, found = threading.Event(), threading.Event(), []

    async def work():
        async with Engine(url, apps=[app]) as engine:
            jobs = [await engine.enqueue(send, code) for code in ("GW_4XX", "GW_5XX", "IO_ERROR")]
            await engine.work(until_idle=True)
            waiting = await engine.enqueue(send, "GW_5XX", delay=3600)
            found.extend([jobs[0].id, waiting.id])
            running = asyncio.create_task(engine.work())
            while not await engine.workers.list():
                await asyncio.sleep(0.01)
            ready.set()
            await asyncio.to_thread(stop.wait)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    assert ready.wait(SOON)
    yield url, *found
    stop.set()
    thread.join(SOON)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_what_the_page_says(command, store, monkeypatch, capsys):
    url, dead, waiting = store
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", url)
    words = shlex.split(command)[1:]
    if "WORKER" in words:
        assert main(["workers", "list"]) == 0
        words[words.index("WORKER")] = capsys.readouterr().out.splitlines()[1].split("\t")[0]
    if "ID" in words:
        words[words.index("ID")] = waiting if words[1] == "cancel" else dead

    code = main(words)

    told = capsys.readouterr()
    assert code == (1 if words == ["doctor"] and "problem" in told.out else 0), told.err
