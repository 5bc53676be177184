"""All streams of a server share the reads of the pauses."""

import asyncio

from holdfast import Engine
from holdfast.http.pause_watch import PauseWatch
from holdfast.jobs.control_port import PauseScope
from holdfast.testing import VirtualClock


def test_many_streams_read_the_pauses_once_a_second(tmp_path):
    async def scenario():
        clock, reads = VirtualClock(), []
        async with Engine(f"sqlite:///{tmp_path}/work.db", clock=clock) as engine:
            real = engine.store.pauses

            async def counted():
                reads.append(clock.monotonic())
                return await real()

            engine.store.pauses = counted
            watch = PauseWatch(engine)
            await asyncio.gather(*(watch.paused() for _ in range(20)))
            await engine.store.pause(PauseScope.QUEUE, ["slow"])
            assert await watch.paused() == frozenset()
            assert reads == [0.0]
            clock.sleep(1.0)
            seen = await asyncio.gather(*(watch.paused() for _ in range(20)))
            assert len(reads) == 2
            assert seen[0] == await watch.paused() == {(PauseScope.QUEUE, "slow")}

    asyncio.run(scenario())
