"""The seed's timeline, on a virtual clock, and its sequence of log lines."""

import logging
import re

from tests.apps.ingestion.sites import site
from tests.apps.ingestion.world import World, ingestion

from holdfast.testing import VirtualClock, virtual_engine

LINE = re.compile(r"\[queue-worker\] (?P<what>[A-Za-z ,]+)(?:.*attempts?: (?P<number>\d+))?")
HOUR, DAY = 3600.0, 86_400.0


def virtual_world(tmp_path, clock):
    app = ingestion(tmp_path, clock=clock)
    return World(None, tmp_path, engine=virtual_engine([app.app], clock=clock), app=app)


def run(tmp_path, scenario):
    # Real sockets under virtual time: wait for them generously, however busy the machine is.
    clock = VirtualClock(io_grace=20.0)

    async def inside():
        async with virtual_world(tmp_path, clock) as world, site() as web:
            await scenario(world, web)

    clock.run(inside())


def lines(caplog):
    """Return what the worker logged, with the number of the attempt where there is one."""
    found = [LINE.match(each.getMessage()) for each in caplog.records]
    return [(each["what"].strip(), each["number"]) for each in found if each is not None]


def test_a_failing_document_is_tried_at_0_2_and_6_seconds(tmp_path, caplog):
    async def scenario(world, web):
        document_id = await world.add(url=web.status("/", 500))
        seen = []
        for seconds in (0, 1.9, 0.1, 3.9, 0.1):
            await world.engine.advance(seconds)
            document = await world.show(document_id)
            seen.append((document["status"], document["state"], document["attemptsMade"]))

        assert seen == [
            ("queued", "delayed", 1),
            ("queued", "delayed", 1),
            ("queued", "delayed", 2),
            ("queued", "delayed", 2),
            ("failed", "failed", 3),
        ]
        attempts = await world.engine.attempts(f"doc-{document_id}")
        begun = [each.started_at for each in attempts]
        assert [round(each - begun[0], 1) for each in begun] == [0.0, 2.0, 6.0]

    with caplog.at_level(logging.INFO, "holdfast.ingestion"):
        run(tmp_path, scenario)
    assert lines(caplog) == [
        ("Processing job", "1"),
        ("Job failed", "1"),
        ("Processing job", "2"),
        ("Job failed", "2"),
        ("Processing job", "3"),
        ("Job failed", "3"),
        ("Document marked as failed", None),
    ]


def test_the_row_of_a_failed_document_says_what_the_seed_expects(tmp_path):
    async def scenario(world, web):
        document_id = await world.add(url=web.status("/", 500))
        await world.engine.run_until_idle()

        rows = await world.engine.database.fetch(
            "SELECT status, processing_metadata ->> 'error', error FROM ingestion_documents "
            "WHERE id = :id",
            {"id": document_id},
        )
        line = "The site ran into a problem of its own (HTTP 500)."
        assert rows == [("failed", line, line)]

    run(tmp_path, scenario)


def test_jobs_are_kept_an_hour_and_a_day_and_documents_answer_on(tmp_path):
    async def scenario(world, web):
        done = await world.add(url=web.text("/good", "Words to find."))
        failed = await world.add(url=web.status("/bad", 500))
        await world.engine.run_until_idle()
        shown = [await world.show(each) for each in (done, failed)]

        await world.engine.advance(HOUR + 600)
        assert await world.engine.get(f"doc-{done}") is None
        assert await world.engine.get(f"doc-{failed}") is not None
        await world.engine.advance(DAY)
        assert await world.engine.get(f"doc-{failed}") is None

        again = [await world.show(each) for each in (done, failed)]
        assert again == shown
        assert [each["state"] for each in again] == ["completed", "failed"]
        assert [each["attemptsMade"] for each in again] == [1, 3]
        assert len(await world.search("words to find")) == 1

    run(tmp_path, scenario)


def test_documents_of_a_dead_site_are_held_and_come_back_by_themselves(tmp_path):
    async def scenario(world, web):
        added = [await world.add(url=web.status(f"/{number}", 503)) for number in range(4)]
        await world.engine.advance(10)
        held = [await world.engine.get(f"doc-{each}") for each in added]
        assert any(job.held for job in held)

        for number in range(4):
            web.text(f"/{number}", f"Words {number}.")
        await world.engine.run_until_idle()
        states = [(await world.show(each))["status"] for each in added]
        assert "done" in states
        assert set(states) <= {"done", "failed"}

    run(tmp_path, scenario)
