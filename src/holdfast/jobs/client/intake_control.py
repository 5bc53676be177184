"""Keep new work from outside out, for the whole fleet, while what is there goes on."""

from holdfast.jobs.intake_port import IntakePause
from holdfast.jobs.store_port import Store
from holdfast.resilience import checks

_LONGEST = 500


class IntakeControl:
    """Pause and resume the intake over HTTP, and look at it.

    The pause is stored: the servers of all processes obey it within a second, across restarts,
    until it is resumed. They answer uploads, documents and submissions with 503. What was taken in
    before is worked on, and a program's own `engine.enqueue` is not refused: the program decides
    for itself, since the jobs of a running workflow must not be lost half-way.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def pause(self, reason: str) -> IntakePause:
        """Take nothing in from now on; `reason` is a line that operators see.

        An intake that is paused already gets the new reason.

        Raises:
            ValueError: the reason is empty, has more than one line or more than 500 characters.
        """
        checks.label("reason", reason)
        if len(reason) > _LONGEST or not reason.isprintable():
            raise ValueError(f"reason must be one line of at most {_LONGEST} characters")
        return await self._store.pause_intake(reason)

    async def resume(self) -> bool:
        """Take in again; False where it was not paused."""
        return await self._store.resume_intake()

    async def state(self) -> IntakePause | None:
        """Return the pause, or None while there is none."""
        return await self._store.intake_pause()
