"""Which workers are alive: they register with their process, and the operating system is asked.

A lease is a time of the wall clock, which may jump: a person sets it, or a laptop wakes up. So each
heartbeat records how far the wall clock is ahead of the monotonic clock, which does not jump and is
the same for all processes of the machine. What the difference has grown by since a worker's last
heartbeat is the jump, and the worker's leases last that much longer. A process that is stopped
sends no heartbeat, but no jump either: its leases expire.
"""

from holdfast.clock import Clock
from holdfast.store.sqlite.process_identity import ProcessIdentity
from holdfast.store.sqlite.transaction import Transaction, as_json


def clock_offset(clock: Clock) -> float:
    """Return how many seconds the wall clock is ahead of the monotonic clock."""
    return clock.wall() - clock.monotonic()


def register(tx: Transaction, worker_id: str, offset: float) -> None:
    """Register a worker of this process as alive."""
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
            "offset": offset,
        },
    )


def note_offset(tx: Transaction, worker_id: str, offset: float) -> None:
    """Record the clocks of a heartbeat."""
    tx.change("worker_offset", {"worker": worker_id, "offset": offset})


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
