"""Three real workers of two releases, whose leaders are killed and paused: one job per slot."""

import pytest
from campaigns import periodic
from campaigns.plan import STORES, Plan


class Gate(Plan):
    """So many slots that a few leaders are killed."""

    __slots__ = ()

    def pick(self, full, short):
        return 30


@pytest.mark.timeout(180)
@pytest.mark.parametrize("store", STORES)
def test_each_slot_gets_one_job_while_leaders_are_killed(store, tmp_path):
    outcome = periodic.run(Gate("periodic", store, 5, False, tmp_path))
    assert (outcome.findings, outcome.skipped) == ([], "")
    assert outcome.figures["jobs"] == outcome.figures["slots"] >= 30
    assert outcome.figures["leaders_killed"] > 0
