"""Show the progress of a command on standard error, once it takes longer than a second."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.cli.output import note
from holdfast.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_FIRST = 1.0
"""Seconds after which progress is shown."""
_EVERY = 5.0
"""Seconds between two lines where standard error is not a terminal."""


class ProgressLine:
    """A bar on a terminal, else a line every five seconds.

    Args:
        label: what is done, such as "requeued".
        total: how many there are; None if that is not known yet.
    """

    def __init__(self, label: str, total: int | None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._label = label
        self._total = total
        self._clock = clock
        self._due = clock.monotonic() + _FIRST
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int) -> None:
        """Show that `done` of the total are done."""
        if self._bar is None and self._clock.monotonic() < self._due:
            return
        if sys.stderr.isatty():
            self._move_bar(done)
        else:
            self._due = self._clock.monotonic() + _EVERY
            note(f"{self._label} {done}{'' if self._total is None else f' of {self._total}'}")

    def _move_bar(self, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        if self._bar is None:
            console = Console(stderr=True)
            self._bar = Progress(
                "{task.description}",
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task(self._label, total=self._total)
            self._bar.start()
        assert self._task is not None
        self._bar.update(self._task, completed=done)
