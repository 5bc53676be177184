"""The handling of requests beside transactions of programs."""

import asyncio

from holdfast.outbox import StartState


def test_a_request_that_is_just_being_recorded_is_not_begun_again(database):
    async def scenario():
        async with database.engine() as engine:
            assert (await engine.handling.begin("grading", "r1")).state is StartState.CLAIMED
            async with database.transaction() as connection:
                assert await engine.inbox.first(connection, "r1", consumer="grading")
                second = asyncio.create_task(engine.handling.begin("grading", "r1"))
                await asyncio.sleep(0.2)  # it waits for this transaction, or has been refused
            assert (await second).state in {StartState.HANDLED, StartState.RUNNING}
            assert (await engine.handling.begin("grading", "r1")).state is StartState.HANDLED

    asyncio.run(scenario())
