"""What a campaign is given and what it hands back."""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

STORES = ("sqlite", "postgres")


@dataclass(frozen=True, slots=True)
class Plan:
    """One campaign on one store.

    Args:
        campaign: its name.
        store: `sqlite` or `postgres`.
        seed: decides every choice that the campaign makes; the scheduler makes others.
        full: the form for a release; else the short one.
        folder: an empty folder of its own.
    """

    campaign: str
    store: str
    seed: int
    full: bool
    folder: Path

    @property
    def replay(self) -> str:
        """The command that runs it again with the same choices."""
        form = "--full" if self.full else "--short"
        return (
            f"{Path(sys.executable).name} -m campaigns {self.campaign} "
            f"--store {self.store} --seed {self.seed} {form}"
        )

    def chance(self, purpose: str = "") -> random.Random:
        """Return the source of choices for one purpose."""
        return random.Random(f"{self.seed}:{self.campaign}:{purpose}")

    def pick(self, full: int, short: int) -> int:
        """Return the size for this form."""
        return full if self.full else short


@dataclass(slots=True)
class Outcome:
    """What a campaign found. It passed where `findings` is empty and it was not skipped."""

    figures: dict[str, float | int | str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    skipped: str = ""
    notes: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        """Note `what` as a finding unless it holds."""
        if not holds:
            self.findings.append(what)


Campaign = Callable[[Plan], Outcome]


def say(text: str) -> None:
    """Speak to whoever runs the campaign."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
