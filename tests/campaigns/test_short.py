"""The campaigns run, in a form so short that only what is badly broken shows."""

import json
from dataclasses import replace

import pytest
from campaigns import __main__ as command
from campaigns import clock, held, kill, model, planted, stop, store
from campaigns.oracle import Oracle
from campaigns.plan import Outcome, Plan
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


@pytest.mark.timeout(180)
def test_held_jobs_are_left_alone(plan):
    outcome = held.run(plan)
    # How long a claim takes says nothing on a busy machine and with few jobs.
    assert [each for each in outcome.findings if "times as much" not in each] == []
    assert outcome.figures["trials_alive_at_most"] == 3


def test_the_store_agrees_with_the_model(plan):
    outcome = model.run(plan)
    assert outcome.findings == []
    assert outcome.figures["steps"] == 300


def test_a_store_that_forgets_is_found_by_the_model(plan, monkeypatch):
    honest = Oracle.finish

    def forgetful(oracle, report, now):
        if isinstance(report.outcome, Completed):
            return "accepted"
        return honest(oracle, report, now)

    monkeypatch.setattr(Oracle, "finish", forgetful)
    (finding,) = model.run(plan).findings
    assert finding.startswith("step ")


@pytest.mark.parametrize("bug", planted.BUGS, ids=lambda bug: f"{bug.store}: {bug.name}")
def test_a_bug_has_its_place_in_the_source(bug):
    assert planted.with_bug(bug) is not None


@pytest.mark.timeout(180)
def test_a_planted_bug_is_caught_by_the_facts(plan):
    bug = next(bug for bug in planted.BUGS if bug.name.startswith("progress"))
    assert planted.plant(bug, plan.folder / "bug")
    caught = planted.catch(plan, bug, plan.folder / "bug")
    assert caught.startswith("fact a_zombies_progress_and_heartbeat_are_refused")


def test_a_failure_prints_its_seed_and_how_to_replay_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kill, "run", lambda plan: Outcome(findings=["lost: j1: gone"]))
    results = tmp_path / "results.json"
    arguments = ["x", "kill", "--short", "--seed", "7", "--store", "sqlite"]
    monkeypatch.setattr("sys.argv", [*arguments, "--results", str(results)])
    assert command.main() == 1
    said = capsys.readouterr().out
    assert "FOUND lost: j1: gone" in said
    assert "-m campaigns kill --store sqlite --seed 7 --short" in said
    kept = json.loads(results.read_text())["kill/sqlite/short"]
    assert (kept["verdict"], kept["findings"]) == ("failed", ["lost: j1: gone"])


def test_the_same_seed_makes_the_same_choices(plan):
    again, other = replace(plan), replace(plan, seed=plan.seed + 1)
    assert plan.chance().random() == again.chance().random() != other.chance().random()
    assert plan.chance("a").random() != plan.chance("b").random()


def test_a_campaign_that_breaks_is_no_success(tmp_path, monkeypatch):
    def broken(plan):
        raise RuntimeError("no room")

    monkeypatch.setattr(store, "run", broken)
    outcome = command.run_one(Plan("store", "sqlite", 1, False, tmp_path))
    assert outcome.findings == ["the campaign itself broke: RuntimeError: no room"]


def test_results_of_other_campaigns_are_kept(tmp_path):
    path = tmp_path / "results.json"
    write(path, Plan("kill", "sqlite", 1, False, tmp_path), Outcome())
    write(path, Plan("stop", "postgres", 1, True, tmp_path), Outcome(skipped="no server"))
    kept = json.loads(path.read_text())
    assert [each["verdict"] for each in kept.values()] == ["passed", "skipped"]


def test_the_model_tells_a_zombie():
    oracle = Oracle()
    oracle.enqueue(NewJob("a", "work"), 1.0)
    (first,) = oracle.claim("w1", 1, {"work": None}, 1.0)
    assert oracle.rescue(100.0) == ({"a"}, set(), set())
    (second,) = oracle.claim("w2", 1, {"work": None}, 100.0)
    assert oracle.finish(Finished(first, Completed()), 101.0) == "stale"
    assert oracle.finish(Finished(second, Completed()), 101.0) == "accepted"
