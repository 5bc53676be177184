"""The functions that choose jobs follow the rules of `holdfast.jobs.claim_sharing`."""

from collections import Counter
from random import Random

from tests.store.postgres.conftest import jobs

from holdfast.jobs.claim_sharing import Turn, in_turn, take_turns
from holdfast.jobs.store_port import ClaimRequest

OWNERS = ("", "ann", "ann2", "bob", "Zoe", "ä")


def expected(waiting, limit, turn):
    """Return how many jobs of each owner the rule takes."""
    taken = Counter()

    def take(owner, wanted):
        number = min(wanted, waiting[owner] - taken[owner])
        taken[owner] += number
        return number

    take_turns(in_turn(waiting, turn), turn, limit, take)
    return +taken


def test_a_claim_takes_from_each_owner_what_the_rule_says(play):
    rng = Random(7)

    async def scenario(store):
        for number in range(40):
            queue = f"queue-{number}"
            owners = rng.sample(OWNERS, rng.randint(1, len(OWNERS)))
            waiting = {owner: rng.choice([1, 3, 9, 10, 11, 40]) for owner in owners}
            turn = rng.choice([None, Turn(rng.choice(OWNERS), rng.choice([0, 4, 9, 10, 30]))])
            limit = rng.choice([1, 5, 10, 25, 60, 200])
            for owner, waits in waiting.items():
                await store.enqueue(
                    jobs(waits, prefix=f"{queue}-{owner}", queue=queue, owner=owner or None)
                )
            memory = store._ticker.memory
            request = ClaimRequest(limit, (queue,), {"work": None})
            # It is asked for the turns of lanes that it knows.
            names = {number + 1: (queue, "", "work")}
            memory.learn(request, [], names=names, scanned=([number + 1], 0.0), idle=())
            if turn is not None:
                memory._turns[queue, ""] = turn
            claims = (await store.tick("w", claim=request)).claims
            taken = Counter(claim.owner or "" for claim in claims)
            assert taken == expected(waiting, limit, turn), (waiting, limit, turn)

    play(scenario)


def test_a_family_is_shared_by_the_same_rule_across_its_kinds(play):
    async def scenario(store):
        await store.enqueue(jobs(100, owner="ann"))
        await store.enqueue(jobs(15, kind="other", prefix="other", owner="ann"))
        await store.enqueue(jobs(20, kind="other", prefix="bob", owner="bob"))
        request = ClaimRequest(60, ("default",), {"work": None, "other": None})
        claims = (await store.tick("w", claim=request)).claims
        assert Counter(claim.owner for claim in claims) == {"ann": 40, "bob": 20}

    play(scenario)
