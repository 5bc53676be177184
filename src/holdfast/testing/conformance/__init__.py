"""The rules of `holdfast.jobs.store_port` as facts to test any store with.

A fact is an async function of a `World`; its name states what holds. A store's tests create a world
with a fresh database for each of `FACTS`, without exception:

    @pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
    def test_the_store_keeps(fact, make_world): ...
"""

from holdfast.testing.conformance import (  # noqa: F401 - importing its files fills FACTS
    attempt_statement_facts,
    claim_facts,
    control_facts,
    counter_facts,
    database_facts,
    dedup_facts,
    downstream_facts,
    enqueue_facts,
    failure_facts,
    fencing_facts,
    handling_facts,
    held_facts,
    inbox_facts,
    intake_facts,
    invariant_facts,
    key_facts,
    limit_facts,
    maintenance_facts,
    operations_facts,
    outbox_facts,
    outcome_facts,
    owner_facts,
    owner_limit_facts,
    pause_facts,
    query_facts,
    rate_facts,
    schedule_facts,
    sharing_facts,
    transaction_facts,
    trial_facts,
    unused_downstream_facts,
    webhook_facts,
    worker_facts,
)
from holdfast.testing.conformance.world import FACTS, Fact, Tables, World

__all__ = ["FACTS", "Fact", "Tables", "World"]
