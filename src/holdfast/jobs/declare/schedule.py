"""When a periodic job is due: a cron line in a time zone, or a fixed interval.

A slot is one moment at which the job is due, in epoch seconds. The slots of a schedule follow from
its declaration alone, so that every worker computes the same ones.
"""

import difflib
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from holdfast.resilience import checks

_LEAST_EVERY = 0.01
"""Seconds; the ids of jobs must tell slots apart, and the leader wakes up for each."""
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""Where the check of a cron line begins: one without a slot in the next 50 years has none."""


class Schedule(Protocol):
    """The slots of a periodic job."""

    @property
    def text(self) -> str:
        """The declaration as text for people; equal texts have the same slots."""
        ...

    @property
    def zone(self) -> tzinfo:
        """The time zone in which people read the slots."""
        ...

    def next_after(self, moment: float) -> float | None:
        """Return the first slot after `moment`; None if there is none within 50 years."""
        ...

    def newest(self, limit: int, *, after: float, through: float) -> list[float]:
        """Return the newest `limit` slots after `after` and not after `through`, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class EverySchedule:
    """A slot every `seconds`, counted from 1970, so that it does not drift and needs no state."""

    seconds: float
    zone: tzinfo = UTC

    @property
    def text(self) -> str:
        """The declaration as text."""
        return f"every {self.seconds:.12g} s"

    def next_after(self, moment: float) -> float:
        """Return the first slot after `moment`."""
        number = self._number_at(moment) + 1
        return number * self.seconds

    def newest(self, limit: int, *, after: float, through: float) -> list[float]:
        """Return the newest `limit` slots after `after` and not after `through`, oldest first."""
        last, before = self._number_at(through), self._number_at(after)
        return [number * self.seconds for number in range(max(before, last - limit) + 1, last + 1)]

    def _number_at(self, moment: float) -> int:
        """Return the number of the last slot that is not after `moment`."""
        number = math.floor(moment / self.seconds)
        # The division rounds: its result may be one too low or too high.
        if (number + 1) * self.seconds <= moment:
            return number + 1
        return number if number * self.seconds <= moment else number - 1


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The slots of a cron line, as Debian's cron has them.

    When clocks go forward, a fixed time that is left out is due right after the change. When they
    go back, a fixed time that occurs twice is due the first time only. Lines with a `*` in the
    minutes or hours follow the time that passes.
    """

    line: str
    timezone: str = "UTC"
    zone: tzinfo = field(default=UTC, compare=False)

    @property
    def text(self) -> str:
        """The declaration as text."""
        return f"{self.line} {self.timezone}"

    def next_after(self, moment: float) -> float | None:
        """Return the first slot after `moment`; None if there is none within 50 years."""
        found: datetime | None = next(self._from(moment), None)
        return None if found is None else found.timestamp()

    def newest(self, limit: int, *, after: float, through: float) -> list[float]:
        """Return the newest `limit` slots after `after` and not after `through`, oldest first."""
        found: list[float] = []
        # The library looks before its start; a slot has no fraction of a second.
        for slot in self._from(math.floor(through) + 1, reverse=True):
            if len(found) >= limit or slot.timestamp() <= after:
                break
            found.append(slot.timestamp())
        return found[::-1]

    def _from(self, moment: float, *, reverse: bool = False) -> Any:
        return _cronsim().CronSim(self.line, datetime.fromtimestamp(moment, self.zone), reverse)


class Missed(StrEnum):
    """What happens to slots for which no worker was there in time, or that fell into a pause."""

    SKIP = "skip"
    """They get no job."""
    ONCE = "once"
    """They get one job together, for the newest of them."""
    ALL = "all"
    """They get one job each, the newest 1000 at most."""


@dataclass(frozen=True, slots=True)
class Periodic:
    """The periodic part of a kind's declaration; `App.periodic` explains it."""

    schedule: Schedule
    missed: Missed = Missed.SKIP
    overlap: bool = True


def every_schedule(seconds: float) -> EverySchedule:
    """Return the schedule with a slot every `seconds`.

    Raises:
        TypeError: `seconds` is not a number.
        ValueError: it is below 0.01.
    """
    checks.number("every", seconds, above=0)
    checks.number("every", seconds, at_least=_LEAST_EVERY)
    return EverySchedule(float(seconds))


def cron_schedule(line: str, timezone: str = "UTC") -> CronSchedule:
    """Return the schedule of a cron line of five fields.

    Raises:
        TypeError: an argument is not a string.
        ValueError: the line or the time zone is wrong; the message says what.
        ImportError: the extra `holdfast[cron]` is not installed.
    """
    checks.label("cron line", line)
    fields = line.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"cron line {line!r} must have five fields, {' '.join(_FIELDS)}; got {len(fields)}"
        )
    zone = time_zone(timezone)
    cronsim = _cronsim()
    try:
        first = next(cronsim.CronSim(line, _ANY_TIME), None)
    except cronsim.CronSimError as error:
        name = str(error).removeprefix("Bad ")
        value = f" {fields[_FIELDS.index(name)]!r}" if name in _FIELDS else ""
        raise ValueError(f"cron line {line!r}: the {name}{value} is wrong") from None
    if first is None:
        raise ValueError(f"cron line {line!r} names no day that exists")
    return CronSchedule(" ".join(fields), timezone, zone)


def time_zone(name: str) -> tzinfo:
    """Return the time zone `name`, as `"Europe/Berlin"`.

    Raises:
        TypeError: `name` is not a string.
        ValueError: there is none of that name; the message names the nearest one.
    """
    checks.label("timezone", name)
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is an OSError
        raise ValueError(f"there is no time zone {name!r}{_nearest_zone(name)}") from None


def _nearest_zone(name: str) -> str:
    known = sorted(available_timezones())
    if not known:
        return ": this machine has no time zones; install holdfast[cron], which brings them"
    wanted = name.casefold().replace(" ", "_")
    # The city alone is often what was typed.
    by_end = {zone.rpartition("/")[2].casefold(): zone for zone in known}
    by_name = {zone.casefold(): zone for zone in known}
    found = by_name.get(wanted) or by_end.get(wanted)
    if found is None:
        near = difflib.get_close_matches(wanted, [*by_name, *by_end], n=1, cutoff=0.6)
        found = by_name.get(near[0]) or by_end[near[0]] if near else None
    return "" if found is None else f"; did you mean {found!r}?"


def _cronsim() -> Any:
    try:
        import cronsim
    except ImportError as error:
        raise ImportError(
            "cron lines need cronsim: install holdfast[cron], or declare the job with every="
        ) from error
    return cronsim
