"""A kind: how its handler is called, its breaker, when `existing` is called."""

from dataclasses import replace

import pytest

from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.kinds import Hook, JobKind
from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.model import Claim, Lease
from holdfast.resilience.policy import BreakerPolicy

app = App("kinds")


@app.job()
def double(ctx, args: int) -> int:
    return args * 2


@app.job(downstream=Downstream("gateway", breaker=BreakerPolicy(open_for=3)))
def name(ctx) -> str:
    return f"of {ctx}"


def claim(token: int, attempt: int = 1) -> Claim:
    return Claim(
        lease=Lease("j1", token, "w", 0.0),
        kind="kinds.double",
        queue="default",
        downstream=None,
        arguments="1",
        attempt=attempt,
        max_attempts=3,
        owner=None,
        created_at=0.0,
        started_at=0.0,
        deadline_at=None,
        meta=None,
        admission=Admission.CALL,
        permit=None,
    )


def test_a_handler_is_called_with_its_arguments():
    assert double.kind.handler.call("ctx", 4) == 8


def test_a_handler_that_takes_no_arguments_is_called_without():
    assert name.kind.handler.call("ctx", None) == "of ctx"


def test_the_breaker_of_a_kind_is_its_downstreams():
    assert name.kind.breaker == BreakerPolicy(open_for=3)
    assert double.kind.breaker is None


def test_a_kind_with_an_incomplete_downstream_has_no_breaker_yet():
    assert replace(double.kind, downstream=Downstream("gateway")).breaker is None


@pytest.mark.parametrize("token, attempt, asked", [(1, 1, False), (2, 2, True), (4, 1, True)])
def test_existing_is_called_if_the_job_was_claimed_before(token, attempt, asked):
    kind = replace(double.kind, existing=Hook(lambda ctx, args: None, is_async=False))
    assert kind.asks_existing(claim(token, attempt)) is asked


def test_without_the_hook_existing_is_never_called():
    assert not double.kind.asks_existing(claim(token=3))


def test_a_kind_needs_no_more_than_a_name_an_app_and_a_handler():
    kind = JobKind("kinds.bare", "kinds", double.kind.handler)
    assert (kind.queue, kind.policy.max_attempts, kind.isolation) == ("default", 3, None)
