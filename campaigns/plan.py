"""The input and the outcome of a campaign."""

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
        seed: of every random choice of the campaign; scheduling stays random.
        full: the full form, for a release; otherwise the short one.
        folder: an empty folder for this run.
    """

    campaign: str
    store: str
    seed: int
    full: bool
    folder: Path

    @property
    def replay(self) -> str:
        """The command that repeats this run with the same seed."""
        form = "--full" if self.full else "--short"
        return (
            f"{Path(sys.executable).name} -m campaigns {self.campaign} "
            f"--store {self.store} --seed {self.seed} {form}"
        )

    def rng(self, purpose: str = "") -> random.Random:
        """Return a random generator for one purpose."""
        return random.Random(f"{self.seed}:{self.campaign}:{purpose}")

    def pick(self, full: int, short: int) -> int:
        """Return `full` or `short`, by the form of this run."""
        return full if self.full else short


@dataclass(slots=True)
class CampaignOutcome:
    """The outcome of a campaign: it passed if `findings` is empty and it was not skipped."""

    figures: dict[str, float | int | str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    skipped: str = ""
    notes: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        """Add `what` to the findings unless `holds`."""
        if not holds:
            self.findings.append(what)


Campaign = Callable[[Plan], CampaignOutcome]


def echo(text: str) -> None:
    """Print a line of progress."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
