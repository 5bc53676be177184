"""Which workers are alive: they register with their process, and the operating system is asked.

It knows nothing about a process of another container or of an earlier boot. So a living worker
registers again every ten minutes, and one that has not done so for an hour is removed.
"""

from collections.abc import Sequence

from holdfast.store.sqlite.process_identity import ProcessIdentity
from holdfast.store.sqlite.transaction import Transaction, as_json

REGISTER_EVERY = 600.0
"""Seconds after which a living worker registers again."""
_FORGOTTEN_AFTER = 3600.0
"""Seconds after its last registration until a worker without jobs is removed."""


def register(tx: Transaction, worker_id: str, kinds: Sequence[str] | None = None) -> None:
    """Register a worker of this process as alive; `kinds` are those that it can run."""
    process = ProcessIdentity.own()
    if process is None:
        return
    tx.change(
        "worker_register",
        {
            "worker": worker_id,
            "boot": process.boot,
            "namespace": process.namespace,
            "pid": process.pid,
            "started": process.started,
            "now": tx.now,
            "kinds": None if kinds is None else as_json(kinds),
        },
    )


def dead_workers(tx: Transaction) -> list[str]:
    """Return the ids of registered workers whose processes have died."""
    here = ProcessIdentity.own()
    if here is None:
        return []
    found = tx.rows("worker_list")
    return [worker for worker, *process in found if ProcessIdentity(*process).has_died(here)]


def is_dead(tx: Transaction, worker_id: str) -> bool:
    """Say whether a worker is registered and its process has died."""
    here, found = ProcessIdentity.own(), tx.rows("worker_get", {"worker": worker_id})
    return here is not None and any(ProcessIdentity(*row).has_died(here) for row in found)


def forget(tx: Transaction, ids: list[str]) -> None:
    """Remove workers that have ended and have no jobs left, and end what they led."""
    if ids:
        given = {"workers": as_json(ids)}
        tx.change("worker_end_leadership", given)
        tx.change("worker_forget", given)


def forget_unseen(tx: Transaction) -> None:
    """Remove workers without jobs that have not registered for an hour, and old leaderships."""
    before = {"before": tx.now - _FORGOTTEN_AFTER}
    tx.change("worker_forget_unseen", before)
    tx.change("worker_forget_leaderships", before)
