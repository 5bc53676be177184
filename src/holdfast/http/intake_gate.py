"""Let new work in or keep it out: paused by operators, or because the disk is almost full."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import ErrorCode
from holdfast.http.api_errors import ApiError
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.intake_port import IntakePause

_READ_EVERY = 1.0
"""Seconds between two looks at the pause and the disk, however many requests come."""
_COME_BACK = 30
"""Seconds after which a refused client may ask again."""
_PAUSED = "No new work is taken in just now; please come back later."
_FULL = "There is almost no room left to store files; please come back later."


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """Where files are kept, and below how many free bytes no more are taken in.

    Args:
        folder: on the disk that counts; the nearest one above it that is there is asked.
        least_bytes: 0 for no limit.
    """

    folder: Path
    least_bytes: int

    def free_bytes(self) -> int:
        """Return how much is free. It blocks."""
        folder = self.folder.absolute()
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free


@dataclass(frozen=True, slots=True)
class IntakeState:
    """What is known of the intake: the operators' pause if any, and the room on the disk."""

    pause: IntakePause | None
    free_bytes: int | None
    least_bytes: int

    @property
    def is_full(self) -> bool:
        """Whether too little is free to take in files."""
        return self.free_bytes is not None and self.free_bytes < self.least_bytes


class IntakeGate:
    """Asked by every route that takes in new work.

    Args:
        engine: knows whether operators have paused the intake.
        room: the disk for files; None asks for no room.
    """

    def __init__(self, engine: StoreEngine, room: DiskRoom | None = None) -> None:
        self._engine = engine
        self._room = room
        self._read_at = 0.0
        self._state: IntakeState | None = None
        self._reading: asyncio.Task[IntakeState] | None = None

    async def check(self, *, writes_files: bool = False) -> None:
        """Refuse new work while the intake is paused; with files also while the disk is too full.

        Raises:
            ApiError: `INTAKE_PAUSED`, 503, with `Retry-After`.
        """
        known = await self._known()
        if known.pause is not None:
            raise _refusal(_PAUSED)
        if writes_files and known.is_full:
            raise _refusal(_FULL)

    async def state(self) -> IntakeState:
        """Return what is so now."""
        pause, room = await self._engine.intake.state(), self._room
        if room is None or room.least_bytes == 0:
            return IntakeState(pause, None, 0)
        return IntakeState(pause, await asyncio.to_thread(room.free_bytes), room.least_bytes)

    async def pause(self, reason: str) -> None:
        """Take in no new work, in all servers; this one obeys at once.

        Raises:
            ApiError: `VALIDATION_ERROR`, the reason is not one line.
        """
        try:
            await self._engine.intake.pause(reason)
        except ValueError:
            line = "The reason must be one line without control characters."
            raise ApiError(ErrorCode.VALIDATION_ERROR, line) from None
        self.read_again()

    async def resume(self) -> bool:
        """Take in new work again; False where the intake was not paused."""
        was_paused = await self._engine.intake.resume()
        self.read_again()
        return was_paused

    def read_again(self) -> None:
        """Let the next request read anew: this server has just paused or resumed."""
        self._state = self._reading = None

    async def _known(self) -> IntakeState:
        """Return what was read last; one request reads anew, and all wait if nothing is known."""
        now = self._engine.clock.monotonic()
        is_fresh = self._reading is not None or now < self._read_at + _READ_EVERY
        if self._state is not None and is_fresh:
            return self._state
        if self._reading is None:
            self._read_at = now
            self._reading = asyncio.create_task(self._read())
        # A request that is cancelled must not end the read that others wait for.
        return await asyncio.shield(self._reading)

    async def _read(self) -> IntakeState:
        state = self._state
        try:
            state = await self.state()
            return state
        finally:
            # Otherwise `read_again` was called meanwhile, and this may be out of date.
            if self._reading is asyncio.current_task():
                self._reading, self._state = None, state


def _refusal(line: str) -> ApiError:
    return ApiError(ErrorCode.INTAKE_PAUSED, line, headers={"retry-after": str(_COME_BACK)})
