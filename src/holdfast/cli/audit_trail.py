"""Write what commands change to the audit log, under the name of the user who runs them."""

import os
import pwd
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.bootstrap import Engine
    from holdfast.jobs.operations_port import AuditEntry


def operator_name() -> str:
    """Return who runs this command, such as `cli:root`: the user of the process.

    The environment is not asked: a shell can set any name there.
    """
    user = os.geteuid()
    try:
        return f"cli:{pwd.getpwuid(user).pw_name}"
    except KeyError:  # a container may run as a number that has no name
        return f"cli:{user}"


async def record(engine: "Engine", action: str, target: str = "", **detail: Any) -> None:
    """Write to the audit log that this command makes a change.

    One thing is changed first and recorded then, so that a refused change is not recorded. A change
    of many things is recorded before it begins, so that one that is killed half-way is in the log.

    Args:
        engine: has the log.
        action: what is done, in the words of the dashboard, such as `downstreams.reset`.
        target: to what, such as the name of a downstream or the id of a job.
        detail: values that JSON takes; no secrets.
    """
    await engine.audit.record(action, target, who=operator_name(), detail=detail)


async def entry_of(engine: "Engine", action: str, target: str = "", **detail: Any) -> "AuditEntry":
    """Return the entry for a change that the store writes with it; arguments as of `record`."""
    return await engine.audit.entry(action, target, who=operator_name(), detail=detail)
