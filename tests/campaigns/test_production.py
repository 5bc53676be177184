"""A short run of the campaign `production`, and what it compares."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from campaigns import production
from campaigns.checker import StoredJob
from campaigns.plan import Plan
from campaigns.production_load import Follower, Shelf, Tally, doubled
from tests.support.missing import do_without
from tests.support.postgres_server import PostgresMissing

DONE = StoredJob("complete", 1, 1, 1, ((1, "complete"),), 1)


@pytest.mark.timeout(300)
def test_nothing_is_lost_or_doubled_under_productions_conditions(tmp_path):
    try:
        outcome = production.run(Plan("production", "postgres", 5, False, tmp_path))
    except PostgresMissing as missing:
        do_without(missing)
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert outcome.findings == []
    assert outcome.figures["failover"] == 1
    assert outcome.figures["lost"] == outcome.figures["duplicate"] == 0


def test_it_is_skipped_on_a_store_without_a_server(tmp_path):
    assert production.run(Plan("production", "sqlite", 1, False, tmp_path)).skipped


def test_clients_choose_overlapping_documents_which_are_the_same_for_all():
    shelf, rng = Shelf(250, 0.05), random.Random(1)
    bulks = [set(shelf.choose(20, rng)) for _ in range(10)]
    assert all(len(bulk) == 20 for bulk in bulks)
    assert any(before & after for before, after in pairwise(bulks))
    assert shelf.document(7) == shelf.document(7)
    poison = [number for number in range(1000) if shelf.document(number).poison]
    assert len(poison) == 10


def test_two_jobs_for_one_document_are_a_finding_unless_one_failed():
    tally = Tally(documents={"a": 1, "b": 1, "c": 2, "missing": 2})
    assert doubled(tally, {"a": DONE, "b": replace(DONE, status="failed"), "c": DONE}) == []
    assert len(doubled(tally, {"a": DONE, "b": DONE, "c": DONE})) == 1


def test_a_stream_that_missed_or_repeated_a_completion_is_found():
    follower = Follower("unused")
    follower.completions.update(["a", "b", "b"])
    stored = {"a": DONE, "b": DONE, "c": DONE, "d": replace(DONE, completions=0)}
    assert [line.split()[6].rstrip(",") for line in follower.missed(stored)] == ["b", "c"]
