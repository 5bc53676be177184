"""How the child processes of isolated kinds are kept and limited."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.children import ChildLimits
from holdfast.resilience import checks


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """How child processes are kept and limited.

    Wall time is the kind's `timeout` and the job's deadline.

    Args:
        limits: what every child may use.
        by_kind: limits of single kinds, by name, in place of those.
        start_seconds: how long a child may take to start and import the handler.
        idle_seconds: how long a child is kept without work.
    """

    limits: ChildLimits = field(default_factory=ChildLimits)
    by_kind: Mapping[str, ChildLimits] = field(default_factory=dict)
    start_seconds: float = 30.0
    idle_seconds: float = 60.0

    def __post_init__(self) -> None:
        checks.instance("limits", self.limits, ChildLimits)
        for name, limits in self.by_kind.items():
            checks.instance(f"by_kind[{name!r}]", limits, ChildLimits)
        checks.number("start_seconds", self.start_seconds, above=0)
        checks.number("idle_seconds", self.idle_seconds, at_least=0)

    def limits_of(self, kind: str) -> ChildLimits:
        """Return the limits of a kind."""
        return self.by_kind.get(kind, self.limits)
