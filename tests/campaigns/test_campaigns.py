"""Short runs of the campaigns: enough to find gross errors, and that the campaigns work."""

import json
from dataclasses import replace
from random import Random

import pytest
from campaigns import __main__ as command
from campaigns import clock, held, kill, model, planted, stop, store
from campaigns.oracle import Oracle
from campaigns.plan import CampaignOutcome, Plan
from campaigns.results import write

from holdfast.jobs.model import Completed, Finished, NewJob


class Tiny(Plan):
    """A plan whose sizes a test chooses."""

    __slots__ = ()

    def pick(self, full, short):
        return {300: 60, 6: 3, 1500: 300, 200: 120, 50_000: 500, 100: 10, 2: 1}.get(short, short)


@pytest.fixture
def plan(tmp_path):
    return Tiny("campaign", "sqlite", 5, False, tmp_path)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("campaign", [kill, stop, clock], ids=lambda module: module.__name__)
def test_a_campaign_with_workers_finds_nothing(campaign, plan):
    outcome = campaign.run(plan)
    assert (outcome.findings, outcome.skipped) == ([], "")
    assert outcome.figures["ok"] > 0
    assert outcome.figures["lost"] == outcome.figures["duplicate"] == 0


def test_a_worker_without_a_crash_point_is_killed_first_and_otherwise_any():
    armed, plain = (kill.WorkerProcess(None, None, crash) for crash in ("in_commit:1", ""))
    assert kill.choose_victim([armed, plain], Random(1)) is plain
    assert kill.choose_victim([armed], Random(1)) is armed


@pytest.mark.timeout(180)
def test_held_jobs_are_not_claimed(plan):
    outcome = held.run(plan)
    # With few jobs, on a busy machine, the measured ratio is not meaningful.
    assert [each for each in outcome.findings if "times as long" not in each] == []
    assert outcome.figures["max_concurrent_trials"] == 3


def test_the_store_agrees_with_the_model(plan):
    outcome = model.run(plan)
    assert outcome.findings == []
    assert outcome.figures["steps"] == 300


def test_a_disagreement_of_store_and_model_is_found(plan, monkeypatch):
    finish = Oracle.finish

    def ignore_completions(oracle, report, now):
        if isinstance(report.outcome, Completed):
            return "accepted"
        return finish(oracle, report, now)

    monkeypatch.setattr(Oracle, "finish", ignore_completions)
    (finding,) = model.run(plan).findings
    assert finding.startswith("step ")


@pytest.mark.parametrize("bug", planted.BUGS, ids=lambda bug: f"{bug.store}: {bug.name}")
def test_the_code_that_a_bug_replaces_exists(bug):
    assert planted.with_bug(bug) is not None


@pytest.mark.timeout(180)
def test_a_planted_bug_is_caught_by_the_conformance_suite(plan):
    bug = next(bug for bug in planted.BUGS if bug.name.startswith("progress"))
    assert planted.plant(bug, plan.folder / "bug")
    caught = planted.catch(plan, bug, plan.folder / "bug")
    assert caught.startswith("fact a_zombies_progress_and_heartbeat_are_refused")


def test_a_failure_prints_its_seed_and_how_to_replay_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kill, "run", lambda plan: CampaignOutcome(findings=["lost: j1: gone"]))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    results = tmp_path / "results.json"
    arguments = ["x", "kill", "--short", "--seed", "7", "--store", "sqlite"]
    monkeypatch.setattr("sys.argv", [*arguments, "--results", str(results)])
    assert command.main() == 1
    output = capsys.readouterr().out
    assert "FOUND lost: j1: gone" in output
    assert "-m campaigns kill --store sqlite --seed 7 --short" in output
    kept = json.loads(results.read_text())["kill/sqlite/short"]
    assert (kept["verdict"], kept["findings"]) == ("failed", ["lost: j1: gone"])


def test_the_same_seed_makes_the_same_choices(plan):
    again, other = replace(plan), replace(plan, seed=plan.seed + 1)
    assert plan.rng().random() == again.rng().random() != other.rng().random()
    assert plan.rng("a").random() != plan.rng("b").random()


def test_a_campaign_that_raises_has_failed(tmp_path, monkeypatch):
    def broken(plan):
        raise RuntimeError("no room")

    monkeypatch.setattr(store, "run", broken)
    outcome = command.run_one(Plan("store", "sqlite", 1, False, tmp_path))
    assert outcome.findings == ["the campaign raised RuntimeError: no room"]


def test_results_of_other_campaigns_are_kept(tmp_path):
    path = tmp_path / "results.json"
    write(path, Plan("kill", "sqlite", 1, False, tmp_path), CampaignOutcome())
    write(path, Plan("stop", "postgres", 1, True, tmp_path), CampaignOutcome(skipped="no server"))
    kept = json.loads(path.read_text())
    assert [each["verdict"] for each in kept.values()] == ["passed", "skipped"]


def test_the_model_refuses_the_report_of_an_expired_lease():
    oracle = Oracle()
    oracle.enqueue(NewJob("a", "work"), 1.0)
    (first,) = oracle.claim("w1", 1, {"work": None}, 1.0)
    assert oracle.rescue(100.0) == ({"a"}, set(), set())
    (second,) = oracle.claim("w2", 1, {"work": None}, 100.0)
    assert oracle.finish(Finished(first, Completed()), 101.0) == "stale"
    assert oracle.finish(Finished(second, Completed()), 101.0) == "accepted"
