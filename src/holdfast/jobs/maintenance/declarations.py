"""Tell apart workers whose declarations ask for different maintenance.

Retention, probes and periodic jobs follow the declarations of a worker, which only workers of the
same app and release share. Rescue and deadlines need none and are the same for all workers of a
database.
"""

import hashlib
from collections.abc import Callable, Iterable

from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.schedule import Periodic

_DIGITS = 16
"""Hexadecimal digits of a fingerprint: 64 bits."""


def fingerprint(kinds: Iterable[JobKind]) -> str:
    """Return a digest of what retention, probes and periodic jobs take from `kinds`.

    Workers with the same digest would do the same, so one of them is enough.
    """
    lines = sorted(
        repr(
            (
                kind.name,
                kind.retention.rules(kind.name),
                _name(kind.retention.on_deleted),
                _probe(kind.downstream),
                _keyed_name(kind.downstream),
                kind.dead_letters,
                *kind.aliases,
                _schedule(kind.periodic),
            )
        )
        for kind in kinds
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_DIGITS]


def _probe(downstream: Downstream | None) -> tuple[str, bool, str | None, float] | None:
    if downstream is None or downstream.probe is None:
        return None
    keyed = downstream.key is not None
    return downstream.name, keyed, _name(downstream.probe), downstream.probe_every


def _keyed_name(downstream: Downstream | None) -> str | None:
    return None if downstream is None or downstream.key is None else downstream.name


def _schedule(periodic: Periodic | None) -> tuple[str, str, bool] | None:
    if periodic is None:
        return None
    return periodic.schedule.text, str(periodic.missed), periodic.overlap


def _name(function: Callable[..., object] | None) -> str | None:
    """Return a name that is the same in every process; `repr` has the object's address."""
    if function is None:
        return None
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"
