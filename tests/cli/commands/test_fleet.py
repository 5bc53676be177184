"""`holdfast queues`, `kinds` and `workers`."""

import asyncio

from tests.cli.commands.shop import app, filled
from tests.support.waiting import until

from holdfast import Engine, WorkerOptions
from holdfast.cli import main


def test_a_queue_is_paused_and_resumed(url, run, rows):
    filled(url, letters=2)
    assert run("queues", "pause", "mail")[1] == "mail is paused: 2 jobs ready, 0 running\n"
    (row,) = rows("queues", "list")
    assert (row["name"], row["state"], row["ready"]) == ("mail", "paused", "2")
    assert row["paused_at"].endswith("Z")
    assert run("queues", "resume", "mail")[1] == "mail is active: 2 jobs ready, 0 running\n"
    assert run("queues", "pause", "post")[0] == 2


def test_a_kind_is_paused_and_resumed(url, data, rows):
    filled(url, letters=1)
    assert data("kinds", "pause", "shop.mail")[0]["state"] == "paused"
    assert [row["state"] for row in rows("kinds", "list")] == ["paused"]
    assert data("kinds", "resume", "shop.mail")[0]["pausedAt"] is None


def test_an_unknown_kind_is_one_line_and_exit_code_2(empty, run):
    code, _, err = run("kinds", "pause", "shop.fax")
    assert code == 2
    assert err.startswith("holdfast: there is no kind 'shop.fax'")


def test_a_worker_is_listed_and_asked_to_finish(empty, capsys):
    async def scenario():
        async with Engine(empty, apps=[app]) as engine:
            worker = engine.worker(WorkerOptions(extend_every=0.05))
            running = asyncio.create_task(worker.run())
            await until(engine.workers.list)
            listed = await asyncio.to_thread(main, ["workers", "list"])
            finished = await asyncio.to_thread(main, ["workers", "finish", worker.worker_id])
            await running
            return worker.worker_id, listed, finished

    worker_id, listed, finished = asyncio.run(scenario())
    assert (listed, finished) == (0, 0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("\t")[:2] == [worker_id, "0"]
    assert lines[2] == f"{worker_id} ends after the 0 jobs that it runs"


def test_a_worker_that_is_gone_is_exit_code_2(empty, run):
    assert run("workers", "finish", "nobody")[0] == 2
