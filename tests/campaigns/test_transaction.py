"""Deposits in handlers' transactions, with workers that are killed: each counts exactly once."""

import os

import pytest
from campaigns import transaction
from campaigns.plan import Plan


class Gate(Plan):
    """A few hundred deposits, or as many as the environment says."""

    __slots__ = ()

    def pick(self, full, short):
        return {400: int(os.environ.get("DEPOSITS", "120")), 10: 4, 8: 8, 3: 2}.get(short, short)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_every_deposit_is_made_once_though_workers_are_killed(store, tmp_path):
    outcome = transaction.run(Gate("transaction", store, 11, False, tmp_path))
    assert (outcome.findings, outcome.skipped) == ([], "")
    assert outcome.figures["balance"] == outcome.figures["deposits"]
    assert outcome.figures["kills_at_points"] >= 4
