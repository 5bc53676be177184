"""Compare the ledger with the store, job by job. Pure functions, no I/O."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from campaigns.ledger import Line

_BETWEEN = frozenset({"lease_lost", "retry", "released"})


class Verdict(StrEnum):
    """The verdict on one job."""

    OK = "ok"
    LOST = "lost"
    """Acknowledged, but missing or unfinished."""
    DUPLICATE = "duplicate"
    """More than one completion was accepted."""
    UNEXPECTED = "unexpected"
    """Anything else that the guarantees exclude."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job in the store at the end of a campaign.

    `outcomes` are its attempts as (number, outcome), oldest first; `completions` counts its
    `complete` events; `result` is the token that its handler returned.
    """

    status: str
    attempt_count: int
    token: int
    completions: int
    outcomes: tuple[tuple[int, str], ...]
    result: int | None


@dataclass(slots=True)
class Judgement:
    """The number of jobs per verdict, and a finding for each job that is not OK."""

    counts: Counter[Verdict] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, job: str, why: str = "") -> None:
        """Count a job, and record a finding unless it is OK."""
        self.counts[verdict] += 1
        if verdict is not Verdict.OK:
            self.findings.append(f"{verdict}: {job}: {why}")

    def figures(self) -> dict[str, int]:
        """Return the counts, by verdict."""
        return {str(verdict): self.counts[verdict] for verdict in Verdict}


def judge(
    acknowledged: Collection[str],
    unknown: Collection[str],
    stored: Mapping[str, StoredJob],
    lines: Iterable[Line],
    poison: Collection[str] = (),
) -> Judgement:
    """Give every job a verdict.

    Args:
        acknowledged: ids of jobs whose enqueueing the store confirmed.
        unknown: ids of jobs whose client got no answer; they may exist or not.
        stored: the jobs in the store at the end, by id.
        lines: the lines of the ledger.
        poison: ids of jobs that cannot succeed, and so must end failed.
    """
    by_job: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.what in {"effect", "claim", "report"}:
            by_job[line.job].append(line)
    judgement = Judgement()
    for job in acknowledged:
        judgement.add(*_verdict(job, stored.get(job), by_job.get(job, []), job in poison))
    for job in unknown:
        if job in stored:
            judgement.add(*_verdict(job, stored[job], by_job.get(job, []), job in poison))
        elif by_job.get(job):
            judgement.add(Verdict.UNEXPECTED, job, "it ran, but is not in the store")
    known = {*acknowledged, *unknown}
    for job in (stored.keys() | by_job.keys()) - known:
        judgement.add(Verdict.UNEXPECTED, job, "it was never enqueued")
    return judgement


def _verdict(
    job: str, stored: StoredJob | None, lines: Sequence[Line], poison: bool
) -> tuple[Verdict, str, str]:
    if stored is None:
        return Verdict.LOST, job, "acknowledged, but not in the store"
    if stored.status not in {"complete", "failed", "cancelled"}:
        return Verdict.LOST, job, f"still {stored.status} at the end"
    accepted = [
        line.token
        for line in lines
        if line.what == "report" and line.accepted and line.detail == "complete"
    ]
    if len(accepted) > 1:
        return Verdict.DUPLICATE, job, f"completions accepted under the tokens {accepted}"
    if stored.completions > 1:
        return Verdict.DUPLICATE, job, f"{stored.completions} completions in its history"
    why = _not_failed(stored, accepted) if poison else _violation(stored, lines, accepted)
    return (Verdict.UNEXPECTED, job, why) if why else (Verdict.OK, job, "")


def _not_failed(stored: StoredJob, accepted: Sequence[int]) -> str:
    """Return how a job that cannot succeed ended instead of failing; empty if it failed."""
    if stored.status != "failed" or stored.completions or accepted:
        return f"it cannot succeed, but ended {stored.status}: {stored.outcomes}"
    outcomes = [outcome for _, outcome in stored.outcomes]
    if not set(outcomes[:-1]) <= _BETWEEN or outcomes[-1] not in {"failed", "lease_lost"}:
        return f"attempts {stored.outcomes}"
    return ""


def _violation(stored: StoredJob, lines: Sequence[Line], accepted: Sequence[int]) -> str:
    """Return which guarantee a finished job violates; empty if none."""
    if stored.status != "complete":
        return f"it ended {stored.status}: {stored.outcomes}"
    outcomes = [outcome for _, outcome in stored.outcomes]
    if stored.completions != 1 or outcomes.count("complete") != 1 or outcomes[-1] != "complete":
        return f"complete after {stored.completions} completions and attempts {stored.outcomes}"
    if not set(outcomes[:-1]) <= _BETWEEN:
        return f"attempts {stored.outcomes}"
    if "released" not in outcomes and not _numbers_continue(stored, lines):
        return f"attempt numbers are not continuous: {stored.outcomes}, token {stored.token}"
    if accepted and accepted[0] != stored.token:
        return f"the completion of token {accepted[0]} was accepted, but {stored.token} is stored"
    effects = {line.token for line in lines if line.what == "effect"}
    if stored.result != stored.token or stored.token not in effects:
        return (
            f"result of token {stored.result}, effects of {sorted(effects)}, stored {stored.token}"
        )
    claims = Counter(line.token for line in lines if line.what == "claim")
    twice = [token for token, count in claims.items() if count > 1]
    if twice:
        return f"claimed twice under the same tokens: {twice}"
    if max(claims, default=0) > stored.token:
        return f"claimed under token {max(claims)}, but {stored.token} is stored"
    return ""


@dataclass(slots=True)
class Staleness:
    """Writes that began after a later claim of the same job was answered."""

    refused: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


def stale_writes(lines: Sequence[Line]) -> Staleness:
    """Find the stale writes, and which of them were accepted.

    A write is stale if it began after a later claim of the same job was answered, so the order of
    the two is certain.
    """
    claims: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for line in lines:
        if line.what == "claim":
            claims[line.job].append((line.token, line.ended))
    staleness = Staleness()
    for line in lines:
        if line.what not in {"report", "progress", "extend"}:
            continue
        later = [
            token for token, ended in claims[line.job] if token > line.token and ended < line.began
        ]
        if not later:
            continue
        name = line.detail if line.what == "report" else line.what
        if line.accepted:
            staleness.findings.append(
                f"stale write accepted: {name} of {line.job} under token {line.token}, "
                f"after the claim under token {max(later)}"
            )
        elif line.accepted is False:
            staleness.refused[name] += 1
    return staleness


def _numbers_continue(stored: StoredJob, lines: Sequence[Line]) -> bool:
    """Return whether attempts are numbered 1, 2, 3, …; an uncounted trial's number is reused."""
    uncounted = {line.token for line in lines if line.detail == "uncounted" and line.accepted}
    expected, number = [], 1
    for token in range(1, len(stored.outcomes) + 1):
        expected.append(number)
        number += token not in uncounted
    return [made for made, _ in stored.outcomes] == expected and stored.token == len(expected)
