"""Stages that last are reported, and those that are over at once are not."""

import asyncio

from holdfast.testing import VirtualClock
from holdfast_ingestion.document_state import Stage
from holdfast_ingestion.stage_reports import StageReports


class Progress:
    """A context that keeps what is reported to it."""

    def __init__(self):
        self.reports = []

    def progress(self, share, note):
        self.reports.append((share, note))


def test_only_stages_that_last_are_reported():
    clock, ctx = VirtualClock(), Progress()

    async def attempt():
        with StageReports(ctx) as stages:
            stages.enter(Stage.FETCHING)
            await asyncio.sleep(0.1)
            stages.enter(Stage.EXTRACTING)
            await asyncio.sleep(5)
            stages.enter(Stage.INDEXING)
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)

    clock.run(attempt())
    assert ctx.reports == [(0.4, "extracting")]


def test_an_attempt_that_fails_reports_nothing_more():
    clock, ctx = VirtualClock(), Progress()

    async def attempt():
        try:
            with StageReports(ctx) as stages:
                stages.enter(Stage.FETCHING)
                raise OSError
        except OSError:
            await asyncio.sleep(5)

    clock.run(attempt())
    assert ctx.reports == []
