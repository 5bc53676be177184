"""Facts about records of keyed downstreams, such as one for each host, that nothing uses."""

from typing import Any

from holdfast.jobs.downstreams.record import Verdict, with_circuit
from holdfast.jobs.model import Completed, Failed
from holdfast.resilience.breaker.transitions import Cause, move
from holdfast.resilience.policy import RateLimit
from holdfast.testing.conformance.world import BROKEN, World, fact

_DAY = 86_400.0
_WRITES = 70
"""After so many writes every store has noticed that a downstream has no jobs."""


@fact
async def unused_records_of_a_keyed_downstream_are_deleted(world: World) -> None:
    """Those without a job, finished ones included; not a plain one, nor one of another name."""
    for name in ("host", "host:a", "host:b", "host:c", "hosts:a"):
        await world.declare(name)
    await world.run("job", Completed(), downstream="host:b")
    assert await _deleted(world) == 2
    assert await _names(world) == ["host", "host:b", "hosts:a"]
    await _delete_jobs(world, "job")
    assert await _deleted(world) == 1
    assert await _names(world) == ["host", "hosts:a"]


@fact
async def records_that_still_matter_are_kept(world: World) -> None:
    """A person's hold for good; an open breaker, and a start that a rate counts, for a day."""
    settings: dict[str, dict[str, Any]] = {
        "host:held": {}, "host:open": {}, "host:rate": {"rate": RateLimit(per_day=5)},
    }  # fmt: skip
    for name, its in settings.items():
        await world.declare(name, **its)
        verdict = Verdict.SUCCESS if name == "host:rate" else Verdict.FAILURE
        claim = await world.start(name, downstream=name)
        await world.finish(claim, Failed(BROKEN), verdict)
    record = await world.downstream("host:held")
    assert record.settings.breaker is not None
    circuit = move(record.circuit, Cause.HOLD, record.settings.breaker, world.now)
    held = with_circuit(record, circuit, world.now)
    await world.store.write_downstream(held, now=world.now)
    await _delete_jobs(world, *settings)
    assert await _deleted(world) == 0
    world.pass_time(2 * _DAY + 30)
    assert await _deleted(world) == 2
    assert await _names(world) == ["host:held"]


@fact
async def unused_records_are_looked_at_page_by_page(world: World) -> None:
    """Each page says where the next one begins, also where nothing of it was deleted."""
    for number in range(5):
        await world.declare(f"host:{number}")
    await world.add("job", downstream="host:0")
    found, after = [], ""
    for _ in range(3):
        deleted, last = await world.store.delete_unused_downstreams(
            "host", after=after, limit=2, now=world.now
        )
        found.append((deleted, last))
        after = last or ""
    assert found == [(1, "host:1"), (2, "host:3"), (1, None)]
    assert await _names(world) == ["host:0"]


async def _deleted(world: World) -> int:
    deleted, last = await world.store.delete_unused_downstreams("host", now=world.now)
    assert last is None
    return deleted


async def _names(world: World) -> list[str]:
    return [record.name for record in await world.store.downstreams()]


async def _delete_jobs(world: World, *job_ids: str) -> None:
    await world.store.delete(list(job_ids))
    for number in range(_WRITES):
        await world.run(f"other-{number}", Completed())
