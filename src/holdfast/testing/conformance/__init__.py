"""The promises of `holdfast.jobs.store_port` as facts that any store can be held to.

A fact is an async function of a `World`; its name states what holds. A store's tests make a world
around a fresh database and check all of `FACTS`, without exception:

    @pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
    def test_the_store_keeps(fact, make_world): ...
"""

from holdfast.testing.conformance import (
    claiming,
    controlling,
    counting,
    downstreams,
    enqueueing,
    fencing,
    invariants,
    limits,
    maintaining,
    outcomes,
    reading,
    sharing,
)
from holdfast.testing.conformance.world import FACTS, Fact, World

__all__ = [
    "FACTS",
    "Fact",
    "World",
    "claiming",
    "controlling",
    "counting",
    "downstreams",
    "enqueueing",
    "fencing",
    "invariants",
    "limits",
    "maintaining",
    "outcomes",
    "reading",
    "sharing",
]
