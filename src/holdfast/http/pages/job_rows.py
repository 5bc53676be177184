"""A job as a row: which shape, which words, which buttons. Nothing here does I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.http.pages import humanize
from holdfast.http.plugins import FactFormat, JobFact, JobFacts
from holdfast.http.rendered import Look, RenderedRow, ShownFact
from holdfast.jobs.held import HeldBy
from holdfast.jobs.model import DeadLetterReason, Job, JobStatus

_STATUSES: Mapping[JobStatus, tuple[Look, str]] = {
    JobStatus.UPLOADED: (Look.QUEUED, "Queued"),
    JobStatus.QUEUED: (Look.QUEUED, "Queued"),
    JobStatus.PROCESSING: (Look.RUNNING, "Running"),
    JobStatus.COMPLETE: (Look.DONE, "Done"),
    JobStatus.FAILED: (Look.FAILED, "Failed"),
    JobStatus.CANCELLED: (Look.CANCELLED, "Cancelled"),
}


def word_of(status: JobStatus) -> str:
    """Return what `status` is called where an app has no word of its own."""
    return _STATUSES[status][1]


def row_of(
    job: Job,
    facts: JobFacts,
    now: float,
    *,
    words: Mapping[JobStatus, str],
    declared: Sequence[JobFact] = (),
    paused: bool = False,
) -> RenderedRow:
    """Return `job` as a row.

    Args:
        now: the store's clock.
        words: what its app calls statuses.
        declared: the facts that the job's app declares.
        paused: its downstream is held, so that nothing can be tried now.
    """
    look = _look(job, now, paused=paused)
    until = job.ready_at if look is Look.WAITING else None
    return RenderedRow(
        id=job.id,
        name=facts.title or job.kind,
        facts=_shown_facts(facts, [fact for fact in declared if not fact.of_result]),
        created_at=job.created_at,
        look=look,
        label=_label(job, look, words),
        attempts=_attempts(job, look),
        until=until,
        until_words="next retry in" if _was_tried(job) else "starts in",
        line=_line(job, facts, look),
        progress=job.progress if look is Look.RUNNING else None,
        can_download=facts.can_download,
        can_retry=facts.can_retry,
        can_expedite=until is not None and _was_tried(job) and not paused,
        can_cancel=not job.status.finished and not job.cancel_requested,
        can_remove=True,
        results=_shown_facts(facts, [fact for fact in declared if fact.of_result]),
        waits_for=(job.downstream or "") if _is_held_by_downstream(job, look) else "",
        last_error=job.last_error.message if look is Look.HELD and job.last_error else "",
        since=job.last_attempt_at if look is Look.RUNNING else None,
        took=_took(job) if look is Look.DONE else None,
        expires_at=facts.expires_at if facts.can_download else None,
    )


def without_actions(row: RenderedRow) -> RenderedRow:
    """Return `row` without buttons."""
    return replace(
        row,
        can_download=False,
        can_retry=False,
        can_expedite=False,
        can_cancel=False,
        can_remove=False,
    )


PAUSED_LINE = "Paused by an operator. It goes on when the pause ends."
"""The line for a job whose queue or kind is paused."""


def held_line(downstream: str) -> str:
    """Return the line for a job whose downstream is held."""
    return f"{shown_name(downstream)} busy, paused. Will retry automatically."


def shown_name(downstream: str) -> str:
    """Return a downstream's name as a sentence begins with it."""
    return downstream[:1].upper() + downstream[1:]


def is_held(job: Job, now: float, *, paused: bool) -> bool:
    """Say whether `job` waits for its queue, kind or downstream; `paused`: that last one is held.

    A job that was tried waits for the downstream even before its `retry_after`, which lies after
    the next trial call. A job with a `run_at` in the future waits for that.
    """
    if job.held or job.status is not JobStatus.QUEUED:
        return job.held
    return paused and (_was_tried(job) or not _comes_later(job, now))


def _shown_facts(facts: JobFacts, declared: Sequence[JobFact]) -> tuple[ShownFact, ...]:
    found = ((fact, facts.values.get(fact.key)) for fact in declared if fact.in_rows)
    return tuple(
        ShownFact(
            fact.label, humanize.size(int(value)) if fact.format is FactFormat.BYTES else str(value)
        )
        for fact, value in found
        if value not in (None, "")
    )


def _was_tried(job: Job) -> bool:
    # A released attempt is not counted.
    return job.attempt_count > 0 or job.last_attempt_at is not None


def _comes_later(job: Job, now: float) -> bool:
    return job.status is JobStatus.QUEUED and job.ready_at is not None and job.ready_at > now


def _look(job: Job, now: float, *, paused: bool) -> Look:
    if is_held(job, now, paused=paused):
        return Look.HELD
    return Look.WAITING if _comes_later(job, now) else _STATUSES[job.status][0]


def _label(job: Job, look: Look, words: Mapping[JobStatus, str]) -> str:
    if job.cancel_requested and look is Look.RUNNING:
        return "Stopping"
    if look is Look.HELD:
        return "Paused"
    if look is Look.WAITING:
        return "Waiting to retry" if _was_tried(job) else "Scheduled"
    return words.get(job.status) or word_of(job.status)


def _attempts(job: Job, look: Look) -> str:
    # A first attempt that runs, and one that was enough, need no number.
    unremarkable = look is Look.DONE or (look is Look.RUNNING and job.attempt_count < 2)
    if unremarkable or not job.attempt_count or look is Look.CANCELLED or _was_refused(job):
        return ""
    return f"Attempt {job.attempt_count} of {job.max_attempts}"


def _was_refused(job: Job) -> bool:
    """Say whether the job failed with attempts left, because another could not help."""
    final = job.dead_letter in {DeadLetterReason.PERMANENT, DeadLetterReason.REFUSED}
    return final and 0 < job.attempt_count < job.max_attempts


def _is_held_by_downstream(job: Job, look: Look) -> bool:
    by_operator = job.held_by in {HeldBy.QUEUE, HeldBy.KIND}
    return look is Look.HELD and not by_operator and job.downstream is not None


def _took(job: Job) -> float | None:
    return None if job.finished_at is None else max(0.0, job.finished_at - job.created_at)


def _line(job: Job, facts: JobFacts, look: Look) -> str:
    if _is_held_by_downstream(job, look):
        assert job.downstream is not None
        return held_line(job.downstream)
    if look is Look.HELD:
        return PAUSED_LINE
    if job.error is not None:
        return f"Not retried: {job.error.message}" if _was_refused(job) else job.error.message
    if look is Look.DONE and facts.note:
        return facts.note
    if look in {Look.WAITING, Look.QUEUED} and job.attempt_count:
        return "" if job.last_error is None else job.last_error.message
    return job.progress_note or "" if look is Look.RUNNING else ""
