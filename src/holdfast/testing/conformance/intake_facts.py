"""Facts about the pause of the intake."""

from holdfast.jobs.intake_port import IntakePause
from holdfast.testing.conformance.world import World, fact


@fact
async def a_pause_of_the_intake_is_seen_from_every_handle_until_it_is_resumed(world: World) -> None:
    assert await world.store.intake_pause() is None
    paused = await world.store.pause_intake("the disk is “full”", now=world.now)
    assert paused == IntakePause("the disk is “full”", world.now)
    second = await world.open_second()
    assert await second.intake_pause() == paused
    assert await second.resume_intake()
    assert await world.store.intake_pause() is None
    assert not await world.store.resume_intake()


@fact
async def pausing_the_intake_again_keeps_the_time_and_changes_the_reason(world: World) -> None:
    await world.store.pause_intake("first", now=world.now)
    again = await world.store.pause_intake("second", now=world.now + 5)
    assert again == await world.store.intake_pause() == IntakePause("second", world.now)
