"""Where a child process finds a kind: the module that declares it, and the kind's name."""

import importlib
import runpy
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.jobs.declare.kinds import JobKind

_AS_MAIN = "__holdfast_child_main__"


@dataclass(frozen=True, slots=True)
class Address:
    """A kind by name, and its module by name or, for a script, by path."""

    kind: str
    module: str | None
    script: str | None = None


def address_of(kind: JobKind) -> Address:
    """Return where a child finds `kind`.

    Raises:
        ValueError: it cannot be found by importing; the message says what to do.
    """
    name = getattr(kind.handler.function, "__module__", None)
    module = sys.modules.get(name or "")
    if module is None or find_in(vars(module), kind.name) is None:
        raise ValueError(
            f"{kind.name} is isolated in a process, which finds it by importing {name}: declare "
            f"it at the top level of that module, not inside a function"
        )
    if name != "__main__":
        return Address(kind.name, name)
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        return Address(kind.name, spec.name)
    script = getattr(module, "__file__", None)
    if script is None:
        raise ValueError(
            f"{kind.name} is isolated in a process, which cannot import what was typed in; put "
            f"it in a file"
        )
    return Address(kind.name, None, script)


def load_kind(address: Address) -> JobKind:
    """Import the module and return the kind.

    Raises:
        LookupError: the module does not declare it.
    """
    if address.module is not None:
        names = vars(importlib.import_module(address.module))
    else:
        # Under another name, as for multiprocessing: what stands under `if __name__ ==
        # "__main__"` must not run again.
        names = runpy.run_path(address.script or "", run_name=_AS_MAIN)
    kind = find_in(names, address.kind)
    if kind is None:
        raise LookupError(f"{address.module or address.script} does not declare {address.kind}")
    return kind


def find_in(names: Mapping[str, Any], kind: str) -> JobKind | None:
    """Return the kind called `kind` among a module's names: itself, its function or its app."""
    for value in tuple(names.values()):
        for candidate in _kinds_of(value):
            if candidate.name == kind:
                return candidate
    return None


def _kinds_of(value: Any) -> tuple[JobKind, ...]:
    if isinstance(value, JobKind):
        return (value,)
    if isinstance(value, type) or type(value).__module__.partition(".")[0] != "holdfast":
        return ()
    found = getattr(value, "kind", None)
    if isinstance(found, JobKind):
        return (found,)
    found = getattr(value, "kinds", None)
    if isinstance(found, tuple):
        return tuple(kind for kind in found if isinstance(kind, JobKind))
    return ()
