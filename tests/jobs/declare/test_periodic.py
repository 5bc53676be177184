"""Declarations of periodic jobs: what is refused, and what a handler learns of its slot."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from holdfast import App, Downstream, JobContext, RetryPolicy
from holdfast.jobs.declare.schedule import Missed
from holdfast.testing import job_context


def declared(*args, **options):
    app = App("a")

    @app.periodic(*args, **options)
    async def tidy(ctx: JobContext) -> None: ...

    return tidy


def test_a_periodic_job_is_a_job_with_a_schedule():
    policy = RetryPolicy(max_attempts=7)
    kind = declared(
        "*/5  * * * *", timezone="Europe/Berlin", missed="once", overlap=False, name="sweep",
        queue="night", retry=policy, timeout=20, deadline=60, concurrency=1,
    ).kind  # fmt: skip
    assert (kind.name, kind.queue, kind.policy, kind.timeout) == ("a.sweep", "night", policy, 20)
    assert (kind.deadline, kind.concurrency) == (60, 1)
    assert kind.periodic.schedule.text == "*/5 * * * * Europe/Berlin"
    assert (kind.periodic.missed, kind.periodic.overlap) == (Missed.ONCE, False)


def test_an_interval_is_seconds_or_a_timedelta():
    texts = {
        declared(every=90).kind.periodic.schedule.text,
        declared(every=timedelta(minutes=1.5)).kind.periodic.schedule.text,
    }
    assert texts == {"every 90 s"}


@pytest.mark.parametrize(
    "args, options, problem",
    [
        ((), {}, "either a cron line or every=, got neither"),
        (("* * * * *",), {"every": 5}, "either a cron line or every=, got both"),
        ((), {"every": 0}, "every must be above 0, got 0"),
        ((), {"every": -1}, "every must be above 0, got -1"),
        ((), {"every": 0.001}, "every must be at least 0.01"),
        ((), {"every": float("nan")}, "every must be finite"),
        ((), {"every": timedelta(0)}, "every must be above 0"),
        ((), {"every": 5, "timezone": "UTC"}, "timezone belongs to a cron line"),
        (("99 * * * *",), {}, "the minute '99' is wrong"),
        (("* * * * *",), {"timezone": "Europe/Berlim"}, "did you mean 'Europe/Berlin'"),
        (("* * * * *",), {"missed": "twice"}, "missed must be 'skip', 'once' or 'all'"),
        (("* * * * *",), {"name": "no name"}, "name must be letters"),
        ((), {"every": 5, "downstream": Downstream("d", key=str)}, "has a key"),
    ],
)
def test_a_wrong_declaration_is_refused(args, options, problem):
    with pytest.raises(ValueError, match=problem):
        declared(*args, **options)


@pytest.mark.parametrize(
    "args, options, problem",
    [
        ((30,), {}, "an interval is every="),
        ((), {"every": "30"}, "every must be a number"),
        (("* * * * *",), {"timezone": 1}, "timezone must be a string"),
        (("* * * * *",), {"overlap": "no"}, "overlap must be a bool"),
        (("* * * * *",), {"colour": "red"}, "colour"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused(args, options, problem):
    with pytest.raises(TypeError, match=problem):
        declared(*args, **options)


def test_the_handler_takes_the_context_only():
    app = App("a")
    with pytest.raises(TypeError, match=r"periodic job a.tidy must take \(ctx\) only"):

        @app.periodic(every=5)
        async def tidy(ctx: JobContext, order: int) -> None: ...

    assert app.kinds == ()


def test_parentheses_are_needed():
    with pytest.raises(TypeError, match=r"write @app.periodic\(...\)"):

        @App("a").periodic
        async def tidy(ctx: JobContext) -> None: ...


def test_annotations_may_use_local_names():
    @dataclass
    class Tidied: ...

    @App("a").periodic(every=5)
    def tidy(ctx: "JobContext") -> "Tidied | None":
        return None

    assert tidy(job_context(tidy)) is None


def test_a_handler_reads_its_slot_in_the_schedules_time_zone():
    tidy = declared("0 3 * * *", timezone="Europe/Berlin")
    context = job_context(tidy, meta=json.dumps({"slot": "2026-07-01T01:00:00+00:00"}))
    assert context.slot == datetime(2026, 7, 1, 3, tzinfo=ZoneInfo("Europe/Berlin"))
    assert context.slot.tzinfo == ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("meta", [None, "{}", "[]", "x", '{"slot": 5}', '{"slot": "2026-07-01"}'])
def test_without_a_slot_it_is_the_time_of_enqueueing(meta):
    context = job_context(declared(every=5), meta=meta)
    assert context.slot.tzinfo is UTC
    assert abs((datetime.now(UTC) - context.slot).total_seconds()) < 60


def test_a_job_that_is_not_periodic_has_the_time_of_enqueueing_too():
    assert job_context().slot.tzinfo is UTC
