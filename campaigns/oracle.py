"""A simple model of a store in memory, without downstreams, for comparison with the real stores.

Each method returns what the method of the same name of the store port must answer. It uses only the
times that it is given.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.jobs.model import (
    Cancelled,
    Completed,
    Failed,
    Finished,
    Lease,
    NewJob,
    Released,
    Retry,
)

LEASE = 10.25
"""Seconds of a lease. Not a whole number, so that no lease expires exactly at a step's time."""


@dataclass(slots=True)
class ModelJob:
    """A job in the model."""

    new: NewJob
    order: int
    status: str
    ready_at: float
    deadline_at: float | None
    attempts: int = 0
    token: int = 0
    worker: str | None = None
    expires_at: float | None = None
    cancel_requested: bool = False
    manual_retries: int = 0
    result: str | None = None
    code: str | None = None
    dead_letter: str | None = None
    late: int = 0
    progress: float | None = None

    def end(self, status: str, code: str | None = None, dead_letter: str | None = None) -> None:
        """Finish it."""
        self.status, self.code, self.dead_letter = status, code, dead_letter
        self._release()

    def requeue(self, at: float) -> None:
        """Queue it again."""
        self.status, self.ready_at, self.progress = "queued", at, None
        self._release()

    def _release(self) -> None:
        self.worker, self.expires_at, self.cancel_requested = None, None, False


@dataclass(slots=True)
class Oracle:
    """All jobs, by id."""

    jobs: dict[str, ModelJob] = field(default_factory=dict)

    def enqueue(self, new: NewJob, now: float) -> tuple[str, bool]:
        """Return the id, and whether it was created."""
        if new.id in self.jobs:
            return new.id, False
        twin = self._twin(new.kind, new.dedup_key)
        if twin is not None:
            return twin, False
        ready_at = now if new.run_at is None else max(now, new.run_at)
        self.jobs[new.id] = ModelJob(
            new, len(self.jobs), str(new.status), ready_at, new.deadline_at
        )
        return new.id, True

    def _twin(self, kind: str, key: str | None) -> str | None:
        for job in self.jobs.values():
            same = key is not None and (job.new.kind, job.new.dedup_key) == (kind, key)
            if same and job.status not in {"failed", "cancelled"}:
                return job.new.id
        return None

    def finish(self, report: Finished, now: float) -> str:
        """Return `accepted`, `stale`, `late`, or the status that replaced the reported one."""
        job = self.jobs[report.lease.job_id]
        outcome = report.outcome
        if job.status != "processing" or job.token != report.lease.token:
            timed_out = job.token == report.lease.token and job.code == "TIMEOUT"
            if timed_out and isinstance(outcome, Completed):
                job.late = 1
                return "late"
            return "stale"
        match outcome:
            case Completed(result):
                job.end("complete")
                job.result, job.progress = result, None
            case Failed(error, dead_letter):
                job.end("failed", error.code, dead_letter)
            case Cancelled():
                job.end("cancelled")
            case Retry() | Released() if job.cancel_requested:
                job.end("cancelled")
                return "cancelled"
            case Retry(_, error, counted=True) if job.attempts >= job.new.max_attempts:
                job.end("failed", error.code, "attempts_exhausted")
                return "failed"
            case Retry(after, _, counted):
                job.attempts -= not counted
                job.requeue(now + after)
            case Released(after):
                job.attempts -= 1
                # Released without a delay it keeps its place in the queue.
                job.requeue(now + after if after > 0 else job.ready_at)
        return "accepted"

    def claim(
        self, worker: str, limit: int, kinds: Mapping[str, int | None], now: float
    ) -> list[Lease]:
        """Return the leases of the claimed jobs, in any order."""
        ready = [
            job for job in self.jobs.values() if job.status == "queued" and job.ready_at <= now
        ]
        ready.sort(key=lambda job: (-job.new.priority, job.ready_at, job.order))
        running = {kind: self._running(kind) for kind in kinds}
        leases: list[Lease] = []
        for job in ready:
            kind = job.new.kind
            most = kinds[kind]
            if len(leases) == limit or (most is not None and running[kind] >= most):
                continue
            running[kind] += 1
            job.status, job.worker, job.expires_at = "processing", worker, now + LEASE
            job.attempts += 1
            job.token += 1
            leases.append(Lease(job.new.id, job.token, worker, now + LEASE))
        return leases

    def _running(self, kind: str) -> int:
        return sum(
            job.status == "processing" and job.new.kind == kind for job in self.jobs.values()
        )

    def progress(self, lease: Lease, share: float) -> bool:
        """Return whether it is accepted."""
        job = self.jobs[lease.job_id]
        if job.status != "processing" or job.token != lease.token:
            return False
        job.progress = share
        return True

    def extend(self, leases: Sequence[Lease], now: float) -> tuple[set[str], set[str]]:
        """Return the ids of lost leases, and of jobs whose cancellation is requested."""
        lost, cancelling = set(), set()
        for lease in leases:
            job = self.jobs[lease.job_id]
            if job.status != "processing" or job.token != lease.token:
                lost.add(lease.job_id)
                continue
            job.expires_at = now + LEASE
            if job.cancel_requested:
                cancelling.add(lease.job_id)
        return lost, cancelling

    def cancel(self, job_id: str) -> str:
        """Cancel the job, or request it if the job runs."""
        job = self.jobs.get(job_id)
        if job is None:
            return "missing"
        if job.status == "processing":
            job.cancel_requested = True
            return "requested"
        if job.status in {"complete", "failed"}:
            return "refused"
        job.end("cancelled")
        return "done"

    def retry(self, job_id: str, now: float) -> str:
        """Requeue a failed job."""
        job = self.jobs.get(job_id)
        if job is None:
            return "missing"
        if job.status != "failed":
            return "refused"
        if self._twin(job.new.kind, job.new.dedup_key) is not None:
            return "twin"
        job.requeue(now)
        job.attempts, job.code, job.dead_letter = 0, None, None
        job.manual_retries += 1
        if job.deadline_at is not None and job.deadline_at < now:
            job.deadline_at = None
        return "done"

    def expedite(self, job_id: str, now: float) -> str:
        """Make a scheduled job ready now."""
        job = self.jobs.get(job_id)
        if job is None:
            return "missing"
        if job.status != "queued":
            return "refused"
        job.ready_at = min(job.ready_at, now)
        return "done"

    def discard(self, job_ids: Iterable[str]) -> int:
        """Remove the jobs from the dead letters; return how many were there."""
        found = [self.jobs[job_id] for job_id in dict.fromkeys(job_ids) if job_id in self.jobs]
        dead = [job for job in found if job.dead_letter is not None]
        for job in dead:
            job.dead_letter = None
        return len(dead)

    def submit(self, job_id: str, now: float) -> str:
        """Queue an uploaded job."""
        job = self.jobs.get(job_id)
        if job is None:
            return "missing"
        if job.status != "uploaded":
            return "refused"
        job.requeue(max(now, job.ready_at))
        return "done"

    def reject(self, job_id: str, code: str) -> str:
        """Fail an uploaded job."""
        job = self.jobs.get(job_id)
        if job is None:
            return "missing"
        if job.status != "uploaded":
            return "refused"
        job.end("failed", code)
        return "done"

    def rescue(self, now: float) -> tuple[set[str], set[str], set[str]]:
        """Return the ids of requeued, dead and cancelled jobs."""
        back, dead, cancelled = set(), set(), set()
        place = 0
        for job_id, job in self.jobs.items():
            if job.expires_at is None or job.expires_at > now:
                continue
            if job.deadline_at is not None and job.deadline_at < now:
                continue  # it is left to expire_deadlines
            if job.cancel_requested:
                job.end("cancelled")
                cancelled.add(job_id)
            elif job.attempts >= job.new.max_attempts:
                job.end("failed", "LEASE_LOST", "lease_lost")
                dead.add(job_id)
            else:
                # After a second attempt one after the other, 0.2 s apart, fifty places.
                again = job.attempts >= 2
                job.requeue(now + 0.2 * (place % 50) if again else now)
                place += again
                back.add(job_id)
        return back, dead, cancelled

    def expire_deadlines(self, now: float) -> set[str]:
        """Return the ids of the jobs that failed."""
        late = {
            job_id
            for job_id, job in self.jobs.items()
            if job.status in {"uploaded", "queued", "processing"}
            and job.deadline_at is not None
            and job.deadline_at < now
        }
        for job_id in late:
            self.jobs[job_id].end("failed", "TIMEOUT", "deadline")
        return late
