"""The checker accepts correct histories and finds each kind of violation."""

from dataclasses import replace

import pytest
from campaigns.brownout import judge_permits
from campaigns.checker import StoredJob, Verdict, judge, stale_writes
from campaigns.ledger import Line

ONCE = StoredJob("complete", 1, 1, 1, ((1, "complete"),), 1)
TWICE = StoredJob("complete", 2, 2, 1, ((1, "lease_lost"), (2, "complete")), 2)


def claim(token=1, at=1.0, job="a", permit=None):
    return Line("claim", job, token, token, True, at, at + 0.1, permit=permit)


def effect(token=1, job="a"):
    return Line("effect", job, token, token)


def report(token=1, at=3.0, accepted=True, detail="complete", job="a"):
    return Line("report", job, token, 0, accepted, at, at + 0.1, detail=detail)


RUN = (claim(), effect(), report())
RUN_AGAIN = (claim(), effect(), claim(2, 5.0), effect(2), report(2, 6.0))


def verdict(stored, lines, acknowledged=("a",), unknown=()):
    """Return the number of jobs per verdict."""
    judgement = judge(acknowledged, unknown, stored, lines)
    assert len(judgement.findings) == judgement.counts.total() - judgement.counts[Verdict.OK]
    return dict(judgement.counts)


def test_a_job_that_ran_once_is_ok():
    assert verdict({"a": ONCE}, RUN) == {Verdict.OK: 1}


def test_a_job_that_ran_again_after_a_crash_is_ok():
    assert verdict({"a": TWICE}, RUN_AGAIN) == {Verdict.OK: 1}


def test_a_completion_whose_answer_did_not_arrive_is_ok():
    assert verdict({"a": ONCE}, (claim(), effect())) == {Verdict.OK: 1}


def test_an_acknowledged_job_that_is_missing_is_lost():
    assert verdict({}, ()) == {Verdict.LOST: 1}


@pytest.mark.parametrize("status", ["queued", "processing", "uploaded"])
def test_an_acknowledged_job_that_is_unfinished_is_lost(status):
    assert verdict({"a": replace(ONCE, status=status)}, RUN) == {Verdict.LOST: 1}


def test_two_accepted_completions_are_a_duplicate_even_if_the_store_shows_one():
    assert verdict({"a": TWICE}, (*RUN_AGAIN, report(1, 7.0))) == {Verdict.DUPLICATE: 1}


def test_two_completions_in_the_history_are_a_duplicate():
    assert verdict({"a": replace(ONCE, completions=2)}, RUN) == {Verdict.DUPLICATE: 1}


def test_a_refused_completion_is_not_a_duplicate():
    lines = (*RUN_AGAIN, report(1, 7.0, accepted=False))
    assert verdict({"a": TWICE}, lines) == {Verdict.OK: 1}


def test_only_an_uncounted_trial_lets_the_next_attempt_reuse_its_number():
    after_a_trial = replace(TWICE, outcomes=((1, "retry"), (1, "complete")))
    uncounted = (*RUN_AGAIN, report(1, 2.0, detail="uncounted"))
    assert verdict({"a": after_a_trial}, uncounted) == {Verdict.OK: 1}
    counted = (*RUN_AGAIN, report(1, 2.0, detail="retry"))
    assert verdict({"a": after_a_trial}, counted) == {Verdict.UNEXPECTED: 1}


@pytest.mark.parametrize(
    "stored, lines",
    [
        (replace(ONCE, status="failed", outcomes=((1, "failed"),)), RUN),
        (ONCE, (claim(), report())),
        (replace(ONCE, result=None), RUN),
        (TWICE, (*RUN_AGAIN, claim(2, 9.0))),
        (ONCE, (*RUN, claim(2, 9.0))),
        (replace(TWICE, outcomes=((1, "lease_lost"), (1, "complete"))), RUN_AGAIN),
        (replace(TWICE, outcomes=((1, "complete"), (2, "complete"))), RUN_AGAIN),
        (replace(TWICE, outcomes=((1, "timeout"), (2, "complete"))), RUN_AGAIN),
        (TWICE, (claim(), effect(), effect(2), report(1))),
    ],
    ids=[
        "failed", "complete without an effect", "a result of no token", "one token for two workers",
        "claimed after it finished", "attempt numbers that restart", "two complete attempts",
        "an attempt that timed out", "the completion of another token was accepted",
    ],
)  # fmt: skip
def test_a_history_that_the_guarantees_exclude_is_unexpected(stored, lines):
    assert verdict({"a": stored}, lines) == {Verdict.UNEXPECTED: 1}


FAILED = replace(ONCE, status="failed", completions=0, outcomes=((1, "failed"),), result=None)
KILLED = replace(FAILED, outcomes=((1, "lease_lost"), (2, "lease_lost")))


@pytest.mark.parametrize("stored", [FAILED, KILLED], ids=["raised", "killed its workers"])
def test_poison_that_failed_is_ok(stored):
    judgement = judge(["a"], [], {"a": stored}, (claim(), effect()), poison={"a"})
    assert judgement.counts == {Verdict.OK: 1}


@pytest.mark.parametrize(
    "stored, lines",
    [
        (ONCE, RUN),
        (FAILED, RUN),
        (replace(FAILED, outcomes=((1, "failed"), (2, "failed"))), ()),
        (replace(FAILED, outcomes=((1, "retry"),)), ()),
    ],
    ids=["complete", "a completion was accepted", "failed twice", "not failed in the end"],
)
def test_poison_that_ended_otherwise_is_unexpected(stored, lines):
    judgement = judge(["a"], [], {"a": stored}, lines, poison={"a"})
    assert judgement.counts == {Verdict.UNEXPECTED: 1}


def test_poison_that_is_missing_or_unfinished_is_lost():
    assert judge(["a"], [], {}, (), poison={"a"}).counts == {Verdict.LOST: 1}
    waiting = {"a": replace(FAILED, status="queued")}
    assert judge(["a"], [], waiting, (), poison={"a"}).counts == {Verdict.LOST: 1}


def test_a_job_that_was_never_enqueued_is_unexpected():
    assert verdict({"a": ONCE}, RUN, acknowledged=()) == {Verdict.UNEXPECTED: 1}


def test_a_job_whose_enqueueing_was_not_answered_may_exist_or_not_but_not_run_and_be_missing():
    assert verdict({}, (), (), ("a",)) == {}
    assert verdict({"a": ONCE}, RUN, (), ("a",)) == {Verdict.OK: 1}
    assert verdict({}, RUN, (), ("a",)) == {Verdict.UNEXPECTED: 1}


@pytest.mark.parametrize("what", ["complete", "failed", "progress", "extend"])
def test_an_accepted_stale_write_is_found(what):
    stale = (
        report(1, 7.0, detail=what)
        if what in {"complete", "failed"}
        else Line(what, "a", 1, 0, True, 7.0, 7.1)
    )
    (finding,) = stale_writes([*RUN_AGAIN, stale]).findings
    assert f"{what} of a under token 1" in finding
    refused = stale_writes([*RUN_AGAIN, replace(stale, accepted=False)])
    assert (refused.findings, dict(refused.refused)) == ([], {what: 1})


def test_a_write_that_began_before_the_other_claim_was_answered_is_not_stale():
    early = report(1, 5.05)
    assert stale_writes([*RUN_AGAIN, early]).findings == []


def test_too_many_trials_and_permits_of_an_ended_generation_are_found():
    trials = [claim(job=f"t{n}", at=1.0 + n / 100, permit=(3, n)) for n in range(1, 4)]
    ends = [report(job=f"t{n}", at=9.0) for n in range(1, 4)]
    assert judge_permits([*trials, *ends], 3) == (3, [])
    most, (finding,) = judge_permits([*trials, *ends], 2)
    assert most == 3
    assert "3 trials ran at once in generation 3" in finding
    moved = Line("moved", "gateway", 4, began=1.5, ended=2.0, detail="OPEN")
    _, (finding,) = judge_permits([moved, claim(at=3.0, permit=(3, None))], 3)
    assert "in generation 3, which had ended" in finding
    assert judge_permits([moved, claim(at=1.9, permit=(3, None))], 3) == (0, [])


def test_lines_are_read_back_from_the_ledgers_process(tmp_path):
    from campaigns.ledger import Ledger, LedgerClient

    lines = [claim(permit=(1, None)), effect(), report(accepted=None)]
    with Ledger(tmp_path / "ledger") as ledger:
        client = LedgerClient(ledger.port)
        client.record(lines[0])
        assert ledger.lines() == lines[:1]
        client.record(*lines[1:])
        assert ledger.lines() == lines
        client.close()
