"""Outcomes of failed jobs are copied into documents, also after trouble with the database."""

import asyncio
import logging

import pytest

from holdfast import StoreUnavailable
from holdfast.testing import VirtualClock
from holdfast_ingestion.settling import Settling, log_failure, settle_for_ever


class Troubled:
    """A database that fails at first."""

    dialect = "sqlite"

    def __init__(self, failures):
        self.asked = 0
        self._failures = failures

    async def fetch(self, *_):
        self.asked += 1
        if self.asked <= self._failures:
            raise StoreUnavailable("away for lunch")
        return []


async def never(job_id):
    raise AssertionError(f"nothing was lost, but {job_id} is retried")


def test_a_worker_whose_database_is_away_goes_on(caplog):
    database = Troubled(failures=1)

    async def scenario():
        settling = Settling()
        async with settling.running():
            settling.wake("a document")  # before any attempt has brought a database
            await asyncio.sleep(0.05)
            assert database.asked == 0
            settling.use(database)
            for asked in (1, 2):
                settling.wake("a document")
                while database.asked < asked:
                    await asyncio.sleep(0.001)
            settling.wake("a document")
            await asyncio.sleep(0)
        assert database.asked >= 2

    with caplog.at_level(logging.WARNING, "holdfast.ingestion"):
        asyncio.run(scenario())
    assert "away for lunch" in caplog.text


def test_a_server_settles_every_half_minute_whatever_happens():
    clock, database = VirtualClock(), Troubled(failures=2)

    async def scenario():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(settle_for_ever(database, never, clock), 100)

    clock.run(scenario())
    assert database.asked == 2 + 2 * 3  # two rounds fail at once, two ask for three things
    assert set(clock.sleeps) == {30.0}


def test_other_events_are_not_logged(caplog):
    assert log_failure(object(), "ingestion.process") is None
    assert caplog.text == ""
