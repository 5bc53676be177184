"""What a worker asks its store for."""

import logging
from collections.abc import Mapping

from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.owner_limits import NO_LIMITS
from holdfast.jobs.store_port import ClaimRequest
from holdfast.jobs.worker.claim_ahead import may_claim_ahead
from holdfast.jobs.worker.options import WorkerOptions

_log = logging.getLogger("holdfast.worker")


def claim_request(
    worker_id: str, kinds: Mapping[str, JobKind], options: WorkerOptions
) -> ClaimRequest:
    """Return a request for no jobs; the worker fills in how many. `kinds` are by stored name.

    A queue that no kind uses is logged.
    """
    known = {kind.queue for kind in kinds.values()}
    if unknown := set(options.queues) - known:
        _log.warning("%s: no known kind of job uses queue %s", worker_id, sorted(unknown))
    return ClaimRequest(
        limit=0,
        queues=options.queues or tuple(sorted(known)),
        kinds={name: kind.concurrency for name, kind in kinds.items()},
        lease_seconds=options.lease_seconds,
        aliases={name: kind.name for name, kind in kinds.items() if name != kind.name},
        owner_limits=options.owner_limits or NO_LIMITS,
        with_lost_workers=may_claim_ahead(kinds.values()),
    )
