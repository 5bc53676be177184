"""The pause of the intake: both stores have statements of the same names and columns."""

from holdfast.jobs.intake_port import IntakePause
from holdfast.store.statements import Statements


class Intake(Statements):
    """A store's pause of the intake, but for how it runs a statement; see `IntakeStore`."""

    async def pause_intake(self, reason: str, *, now: float | None = None) -> IntakePause:
        """Pause the intake."""
        (row,) = await self._changed_rows("intake_pause", now, reason=reason)
        return IntakePause(*row)

    async def resume_intake(self) -> bool:
        """End the pause."""
        return bool(await self._changed_rows("intake_resume", None))

    async def intake_pause(self) -> IntakePause | None:
        """Return the pause."""
        found = await self._rows("intake_state")
        return IntakePause(*found[0]) if found else None
