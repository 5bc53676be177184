"""Which workers are alive: they register with their process, and the operating system is asked.

It knows nothing about a process of another container or of an earlier boot. So a living worker
registers again every ten minutes, and one that has not done so for an hour is removed.
"""

from collections.abc import Sequence

from holdfast.jobs.control_port import WorkerRecord
from holdfast.store.sqlite.process_identity import ProcessIdentity
from holdfast.store.sqlite.read_pool import Snapshot
from holdfast.store.sqlite.transaction import Transaction, as_json

REGISTER_EVERY = 600.0
"""Seconds after which a living worker registers again."""
_FORGOTTEN_AFTER = 3600.0
"""Seconds after its last registration until a worker without jobs is removed."""

_FINISH_REQUESTS_KEPT = 86400.0
"""Seconds after which a request to finish is forgotten; its worker finds it within a few."""


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


def dead_workers(view: Transaction | Snapshot) -> list[str]:
    """Return the ids of registered workers whose processes have died."""
    here = ProcessIdentity.own()
    if here is None:
        return []
    found = view.rows("worker_list")
    return [worker for worker, *process in found if ProcessIdentity(*process).has_died(here)]


def overview(view: Transaction | Snapshot) -> tuple[WorkerRecord, ...]:
    """Return the workers that are alive or have jobs, by id."""
    running: dict[str, int] = dict(view.rows("worker_running"))
    alive = {worker for worker, *_ in view.rows("worker_list")} - set(dead_workers(view))
    asked: dict[str, float] = dict(view.rows("worker_finish_requests"))
    since: dict[str, float | None] = dict(view.rows("worker_registered"))
    return tuple(
        WorkerRecord(worker, running.get(worker, 0), asked.get(worker), since.get(worker))
        for worker in sorted(alive | running.keys())
    )


def request_finish(tx: Transaction, worker_id: str) -> bool:
    """Ask a worker to finish; False where there is none of that id."""
    tx.change("worker_forget_finish_requests", {"before": tx.now - _FINISH_REQUESTS_KEPT})
    if all(worker.id != worker_id for worker in overview(tx)):
        return False
    tx.change("worker_request_finish", {"worker": worker_id, "now": tx.now})
    return True


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
