"""A thousand dead letters: a run is aborted, the next one killed, and the last one requeues all."""

import pytest
from campaigns import requeue
from campaigns.plan import STORES, Plan


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_runs_that_end_half_way_lose_no_dead_letter_and_requeue_none_twice(store, tmp_path):
    outcome = requeue.run(Plan("requeue", store, 5, False, tmp_path))

    assert (outcome.findings, outcome.skipped) == ([], "")
    figures = outcome.figures
    assert 0 < figures["before_abort"] < figures["before_kill"] < figures["dead_letters"] == 1000
