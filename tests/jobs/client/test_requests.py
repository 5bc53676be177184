"""Requests for jobs: options, times and ids, and refusals before anything is stored."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.errors import ErrorCode
from holdfast.ids import new_ids
from holdfast.jobs.client.requests import JobHandle, JobRequest, needs_now, prepare
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.validation import PayloadTooLarge, ValidationError
from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.model import JobStatus, NewJob
from holdfast.resilience.policy import RetryPolicy

NOW = 1_700_000_000.0
LIMIT = 1000
app = App("invoices")


@dataclass(frozen=True, slots=True)
class Order:
    number: int
    host: str = "example.org"


ORDER = Order(1)


@app.job(queue="slow", retry=RetryPolicy(max_attempts=5), downstream=Downstream("gateway"))
async def send(ctx, args: Order) -> str:
    return "sent"


@app.job(deadline=60)
def urgent(ctx): ...


@app.job(downstream=Downstream("host", key=lambda args: args.host))
def fetch(ctx, args: Order): ...


def prepared(job=send, args=ORDER, kind=None, **options) -> NewJob:
    request = JobRequest(job, args, **options)
    return prepare(request, kind or job.kind, "new-id", NOW, LIMIT)


def refusal(**options) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        prepared(**options)
    return caught.value


def test_a_request_takes_the_settings_of_its_kind():
    assert prepared() == NewJob(
        id="new-id",
        kind="invoices.send",
        queue="slow",
        arguments='{"number":1,"host":"example.org"}',
        downstream="gateway",
        max_attempts=5,
    )


def test_all_options_are_kept():
    job = prepared(
        dedup_key="k",
        owner="ann",
        priority=-7,
        run_at=NOW + 5,
        deadline=60,
        id="order-1",
        meta={"file": "a.pdf", "bytes": 3},
        uploaded=True,
    )
    assert (job.dedup_key, job.owner, job.priority, job.id) == ("k", "ann", -7, "order-1")
    assert (job.run_at, job.deadline_at) == (NOW + 5, NOW + 60)
    assert job.meta == '{"file":"a.pdf","bytes":3}'
    assert job.status is JobStatus.UPLOADED


@pytest.mark.parametrize(
    "run_at, moment",
    [
        (NOW + 1, NOW + 1),
        (timedelta(minutes=2), NOW + 120),
        (datetime(2024, 1, 1, tzinfo=UTC), 1_704_067_200.0),
    ],
)
def test_run_at_is_epoch_seconds_a_datetime_or_a_time_from_now(run_at, moment):
    assert prepared(run_at=run_at).run_at == moment


@pytest.mark.parametrize("delay, moment", [(0, NOW), (1.5, NOW + 1.5), (timedelta(1), NOW + 86400)])
def test_a_delay_is_seconds_or_a_timedelta_from_now(delay, moment):
    assert prepared(delay=delay).run_at == moment
    assert prepared(urgent, None, delay=delay).deadline_at == moment + 60


@pytest.mark.parametrize(
    "deadline, moment",
    [
        (90, NOW + 90),
        (timedelta(hours=1), NOW + 3600),
        (datetime(2024, 1, 1, tzinfo=UTC), 1_704_067_200.0),
    ],
)
def test_a_deadline_is_seconds_from_now_or_a_datetime(deadline, moment):
    assert prepared(deadline=deadline).deadline_at == moment


def test_a_kinds_deadline_counts_from_now_or_from_a_later_start():
    assert prepared(urgent, None).deadline_at == NOW + 60
    assert prepared(urgent, None, run_at=NOW + 500).deadline_at == NOW + 560
    assert prepared(urgent, None, run_at=NOW - 500).deadline_at == NOW + 60
    assert prepared(urgent, None, deadline=5).deadline_at == NOW + 5


@pytest.mark.parametrize(
    "job, options, needed",
    [
        (send, {}, False),
        (send, {"run_at": NOW}, False),
        (send, {"delay": 5}, True),
        (send, {"run_at": timedelta(1)}, True),
        (send, {"deadline": 5}, True),
        (urgent, {}, True),
    ],
)
def test_the_time_is_needed_only_for_relative_times(job, options, needed):
    assert needs_now(JobRequest(job, None, **options), job.kind) is needed


def test_each_key_has_its_own_downstream():
    assert prepared(fetch, Order(1, "a.org")).downstream == "host:a.org"
    assert prepared(fetch, {"number": 1, "host": "b.org"}).downstream == "host:b.org"


def test_a_key_that_raises_refuses_the_job():
    error = refusal(job=fetch, args=Order(1, ""))
    assert "the key of downstream 'host' failed: key must not be empty" in str(error)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"args": 3}, "arguments of invoices.send: must be a Order, got 3"),
        ({"args": Order("x")}, "arguments of invoices.send: number: expected int, got 'x'"),
        ({"id": ""}, "id must be 1 to 200 letters"),
        ({"id": "a/b"}, "job invoices.send: id must be 1 to 200 letters, .* got 'a/b'"),
        ({"id": 7}, "id must be .* got 7"),
        ({"id": "x" * 201}, "id must be 1 to 200"),
        ({"dedup_key": ""}, "dedup_key must not be empty"),
        ({"dedup_key": 3}, "dedup_key must be a string, got 3"),
        ({"dedup_key": "x" * 501}, "dedup_key must have at most 500 characters"),
        ({"owner": "a\0b"}, "owner must have at most 500 characters, no NUL"),
        ({"owner": "\udfff"}, "owner must have .* no lone surrogate, got '.udfff'"),
        ({"dedup_key": "\ud800"}, "dedup_key must have .* no lone surrogate"),
        (
            {"dedup_key": "k", "dedup": "never"},
            "dedup must be 'complete' or 'unfinished', got 'never'",
        ),
        ({"dedup": "unfinished"}, "dedup and dedup_for need a dedup_key"),
        ({"dedup_for": 5}, "dedup and dedup_for need a dedup_key"),
        ({"dedup_key": "k", "dedup_for": 0}, "dedup_for must be above 0, got 0"),
        ({"dedup_key": "k", "dedup_for": "5"}, "dedup_for must be a number, got '5'"),
        ({"uploaded": "no"}, "uploaded must be True or False, got 'no'"),
        ({"run_at": -1e300}, "run_at as a number is in epoch seconds, got -1e.300"),
        ({"run_at": 60}, "epoch seconds, got 60, a moment before 2001; delay= takes seconds"),
        ({"delay": -1}, "delay must be at least 0, got -1"),
        ({"delay": timedelta(seconds=-1)}, "delay must be at least 0, got -1"),
        ({"delay": timedelta.max}, "delay must be at most 9e.09"),
        ({"delay": "5"}, "delay must be a number, got '5'"),
        ({"delay": 5, "run_at": NOW}, "give run_at or delay, not both"),
        ({"delay": 9, "deadline": 5}, "deadline must be later than the earliest start.*, got 5"),
        ({"run_at": timedelta.max}, "run_at must be in the years 1 to 9999"),
        ({"deadline": timedelta.max}, "deadline must be in the years 1 to 9999"),
        ({"priority": 32768}, "priority must be at most 32767, got 32768"),
        ({"priority": -32769}, "priority must be at least -32768, got -32769"),
        ({"priority": "high"}, "priority must be a whole number, got 'high'"),
        ({"run_at": "soon"}, "run_at must be a number, got 'soon'"),
        ({"run_at": float("inf")}, "run_at must be finite, got inf"),
        ({"run_at": datetime(2024, 1, 1)}, "run_at must have a time zone"),  # noqa: DTZ001
        ({"deadline": "soon"}, "deadline must be a number, got 'soon'"),
        ({"deadline": 0}, "deadline must be later than now, got 0"),
        ({"deadline": timedelta(-1)}, "deadline must be later than now"),
        ({"deadline": datetime(2020, 1, 1, tzinfo=UTC)}, "deadline must be later than now"),
        ({"deadline": datetime(2024, 1, 1)}, "deadline must have a time zone"),  # noqa: DTZ001
        (
            {"deadline": 5, "run_at": NOW + 9},
            "deadline must be later than the earliest start.*, got 5",
        ),
        ({"meta": [1]}, r"meta of invoices.send: must be a mapping, got \[1\]"),
        ({"meta": {"x": object()}}, "meta of invoices.send: cannot be stored as JSON"),
    ],
)
def test_invalid_options_are_refused_with_field_and_value(options, message):
    error = refusal(**options)
    assert error.code is ErrorCode.VALIDATION_ERROR
    assert re.search(message, str(error))


@pytest.mark.parametrize("options", [{"args": Order(1, "x" * 1000)}, {"meta": {"a": "x" * 1000}}])
def test_a_payload_over_the_limit_is_refused(options):
    with pytest.raises(PayloadTooLarge, match=r"invoices.send: 10\d\d bytes") as caught:
        prepared(**options)
    assert caught.value.limit == LIMIT


def test_new_ids_are_ids_that_a_caller_might_have_chosen():
    assert prepared(id=new_ids(1, NOW)[0]).id


def test_a_request_names_its_kind():
    assert JobRequest(send, Order(1)).kind_name == "invoices.send"
    assert JobRequest("invoices.send", {}).kind_name == "invoices.send"


def test_a_handle_has_whether_the_job_is_new():
    handle: JobHandle[str] = JobHandle("j1", "invoices.send", created=False)
    assert replace(handle, created=True) != handle


@pytest.mark.parametrize(
    "options, rule",
    [
        ({}, None),
        ({"dedup": "complete"}, None),
        ({"dedup": "unfinished"}, DedupRule(unfinished=True)),
        ({"dedup_for": 60}, DedupRule(seconds=60.0)),
        ({"dedup": "unfinished", "dedup_for": timedelta(minutes=1)}, DedupRule(True, 60.0)),
    ],
)
def test_the_rule_for_twins_is_kept(options, rule):
    assert prepared(dedup_key="k", **options).dedup_rule == rule
