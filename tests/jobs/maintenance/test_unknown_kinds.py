"""Kinds that wait and that no live worker knows are reported once."""

import asyncio

from holdfast.jobs.job_events import KindWithoutWorker
from holdfast.jobs.maintenance.unknown_kinds import UnknownKinds


class Scripted:
    """Answers one round after the other."""

    def __init__(self, *answers):
        self._answers = list(answers)

    async def unknown_kinds(self, worker_id):
        assert worker_id == "w"
        return self._answers.pop(0)


def rounds(*answers):
    """Play the rounds; return the events and what each round returned."""
    events = []
    service = UnknownKinds(Scripted(*answers), "w", interval=1.0, listeners=[events.append])

    async def play():
        return [await service.round() for _ in answers]

    return events, asyncio.run(play())


def test_a_kind_that_two_rounds_find_is_reported_once(caplog):
    events, counts = rounds({"a.b": 3}, {"a.b": 4}, {"a.b": 5}, {"a.b": 6})
    assert events == [KindWithoutWorker("a.b", 4)]
    assert counts == [1, 1, 1, 1]
    (record,) = caplog.records
    assert (record.levelname, record.kind) == ("WARNING", "a.b")
    assert record.getMessage() == (
        "4 jobs of the kind a.b wait, and no live worker knows it: start a worker with the app "
        "that declares it"
    )


def test_a_worker_that_restarts_is_not_missed():
    assert rounds({"a.b": 3}, {}, {"a.b": 1}, {})[0] == []


def test_it_is_reported_again_after_it_was_known():
    events, _ = rounds({"a.b": 1}, {"a.b": 1}, {}, {"a.b": 2}, {"a.b": 2, "c.d": 1}, {"c.d": 1})
    assert [(event.name, event.waiting) for event in events] == [("a.b", 1), ("a.b", 2), ("c.d", 1)]
