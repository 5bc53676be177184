"""The stored form of the exception that ended an attempt."""

from dataclasses import replace

import pytest

from holdfast.errors import Category, ErrorCode, ErrorInfo, HoldfastError, Permanent
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.worker.failure import of_code, summarize
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

POLICY = RetryPolicy()


def kind_of(policy=POLICY, downstream=None):
    app = App("a")

    @app.job(retry=policy, downstream=downstream)
    async def work(ctx): ...

    return work.kind


def test_the_policys_own_category_comes_first():
    picky = kind_of(replace(POLICY, categorize=lambda error: Category.PERMANENT))
    found = summarize(ConnectionError(), picky, 0.0)
    assert (found.diagnosis.category, found.verdict) == (Category.PERMANENT, Verdict.NEITHER)
    undecided = kind_of(replace(POLICY, categorize=lambda error: None))
    assert summarize(ConnectionError(), undecided, 0.0).diagnosis.category is Category.TRANSIENT


def test_a_categorize_function_that_raises_changes_nothing(caplog):
    def broken(error):
        raise ValueError

    found = summarize(ConnectionError(), kind_of(replace(POLICY, categorize=broken)), 0.0)
    assert found.diagnosis.category is Category.TRANSIENT
    assert "a.work: categorize failed on ConnectionError()" in caplog.text


def test_a_breakers_exclusion_counts_as_neither():
    breaker = BreakerPolicy(exclude=(ConnectionResetError,))
    kind = kind_of(downstream=Downstream("d", breaker=breaker))
    assert summarize(ConnectionResetError(), kind, 0.0).verdict is Verdict.NEITHER
    assert summarize(ConnectionRefusedError(), kind, 0.0).verdict is Verdict.FAILURE


@pytest.mark.parametrize("error", [SystemExit(2), KeyboardInterrupt(), GeneratorExit()])
def test_a_base_exception_is_an_unknown_failure(error):
    failure = summarize(error, kind_of(), 0.0)
    assert failure.diagnosis.category is Category.TRANSIENT
    assert failure.error.code is ErrorCode.UNKNOWN
    assert type(error).__name__ in failure.message
    assert failure.verdict is Verdict.NEITHER


def test_a_failure_found_by_holdfast_does_not_count_for_the_downstream():
    assert of_code(ErrorCode.UNKNOWN).verdict is Verdict.NEITHER
    assert of_code(ErrorCode.UNKNOWN, final=True).diagnosis.category is Category.PERMANENT
    assert of_code(ErrorCode.MEMORY_ERROR).message


class BankBusy(HoldfastError):
    code = "BANK_BUSY"


class Unpaid(HoldfastError):
    code = "UNPAID"


@pytest.mark.parametrize(
    "error, category, expected",
    [
        (Permanent("DECLINED", "Ask your bank."), Category.PERMANENT, "Ask your bank."),
        (Permanent("DECLINED"), Category.PERMANENT, "DECLINED"),
        (Permanent("UNPAID"), Category.PERMANENT, "It is not paid."),
        (Permanent("BANK_BUSY"), Category.PERMANENT, "The bank is busy."),
        (BankBusy(), Category.TRANSIENT, "The bank is busy."),
        (Unpaid("not yet"), Category.PERMANENT, "not yet"),
    ],
)
def test_a_code_of_the_app_is_kept_and_its_category_holds(error, category, expected):
    errors = [
        ErrorInfo("UNPAID", "It is not paid."),
        ErrorInfo("BANK_BUSY", "The bank is busy.", 503, Category.TRANSIENT),
    ]
    app = App("shop", errors=errors)

    @app.job()
    async def pay(ctx): ...

    failure = summarize(error, pay.kind, 0.0)
    assert failure.diagnosis.category is category
    assert (failure.error.code, failure.message) == (error.code, expected)
