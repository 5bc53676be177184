"""What a store remembers between two claims: when it looks through all lanes again."""

import pytest

from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.postgres.claim_memory import ClaimMemory
from holdfast.store.postgres.connection import Database
from holdfast.store.postgres.lanes import Lanes
from holdfast.testing import VirtualClock

REQUEST = ClaimRequest(1, ("default",), {"work": None})
CLAIMED = {"lanes": [1], "seqs": [1], "owners": None}


@pytest.mark.parametrize("took, again_after", [(0.0001, 0.02), (0.05, 0.5)])
def test_lanes_are_looked_through_again_for_a_tenth_of_the_time_and_not_within_20_ms(
    took, again_after
):
    clock = VirtualClock()
    database = Database("postgresql://127.0.0.1/none", connections=1, timeout=1.0)
    memory = ClaimMemory(Lanes(database), clock)
    names = {1: ("default", "", "work")}
    memory.learn(REQUEST, [CLAIMED], names=names, scanned=([1], took), idle=())
    assert memory.window(REQUEST) == ([(1,)], False)
    clock.advance(0.9 * again_after)
    assert memory.window(REQUEST) == ([(1,)], False)
    clock.advance(0.2 * again_after)
    assert memory.window(REQUEST) == ([(1,)], True)
