"""Judge what the ledger and the store say of the same jobs. Pure: nothing here does I/O."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from campaigns.ledger import Line

_BETWEEN = frozenset({"lease_lost", "retry", "released"})


class Verdict(StrEnum):
    """What became of a job."""

    OK = "ok"
    LOST = "lost"
    """Acknowledged, and gone or never finished."""
    DUPLICATE = "duplicate"
    """More than one completion was accepted."""
    UNEXPECTED = "unexpected"
    """Anything else that no promise allows."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A job as the store shows it at the end.

    `outcomes` are its attempts as (number, outcome), oldest first; `completions` counts the
    events that say so; `result` is the token that its handler returned.
    """

    status: str
    attempt_count: int
    token: int
    completions: int
    outcomes: tuple[tuple[int, str], ...]
    result: int | None


@dataclass(slots=True)
class Judgement:
    """How many jobs stand where, and a line for each that is not well."""

    counts: Counter[Verdict] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, job: str, why: str = "") -> None:
        """Count a job, and keep why it is not well."""
        self.counts[verdict] += 1
        if verdict is not Verdict.OK:
            self.findings.append(f"{verdict}: {job}: {why}")

    def figures(self) -> dict[str, int]:
        """Return the counts by name."""
        return {str(verdict): self.counts[verdict] for verdict in Verdict}


def judge(
    acknowledged: Collection[str],
    unknown: Collection[str],
    stored: Mapping[str, Stored],
    lines: Iterable[Line],
) -> Judgement:
    """Sort every job.

    Args:
        acknowledged: ids whose enqueueing the store has confirmed.
        unknown: ids whose client never heard: either outcome is right, both is not.
        stored: what the store holds at the end, by id.
        lines: what the ledger holds.
    """
    by_job: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.what in {"effect", "claim", "report"}:
            by_job[line.job].append(line)
    judgement = Judgement()
    for job in acknowledged:
        judgement.add(*_one(job, stored.get(job), by_job.get(job, [])))
    for job in unknown:
        if job in stored:
            judgement.add(*_one(job, stored[job], by_job.get(job, [])))
        elif by_job.get(job):
            judgement.add(Verdict.UNEXPECTED, job, "it ran, and the store does not know it")
    known = {*acknowledged, *unknown}
    for job in (stored.keys() | by_job.keys()) - known:
        judgement.add(Verdict.UNEXPECTED, job, "nobody enqueued it")
    return judgement


def _one(job: str, stored: Stored | None, lines: Sequence[Line]) -> tuple[Verdict, str, str]:
    if stored is None:
        return Verdict.LOST, job, "acknowledged, and the store does not know it"
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
    why = _oddity(stored, lines, accepted)
    return (Verdict.UNEXPECTED, job, why) if why else (Verdict.OK, job, "")


def _oddity(stored: Stored, lines: Sequence[Line], accepted: Sequence[int]) -> str:
    """Return what no promise allows about a finished job; empty where there is nothing."""
    if stored.status != "complete":
        return f"it ended {stored.status}: {stored.outcomes}"
    outcomes = [outcome for _, outcome in stored.outcomes]
    if stored.completions != 1 or outcomes.count("complete") != 1 or outcomes[-1] != "complete":
        return f"complete after {stored.completions} completions and attempts {stored.outcomes}"
    if not set(outcomes[:-1]) <= _BETWEEN:
        return f"attempts {stored.outcomes}"
    if "released" not in outcomes and not _counted_on(stored, lines):
        return f"attempts were not counted on: {stored.outcomes}, token {stored.token}"
    if accepted and accepted[0] != stored.token:
        return f"token {accepted[0]} was told that it completed, {stored.token} is stored"
    effects = {line.token for line in lines if line.what == "effect"}
    if stored.result != stored.token or stored.token not in effects:
        return f"result of token {stored.result}, effects of {sorted(effects)}, {stored.token}"
    claims = Counter(line.token for line in lines if line.what == "claim")
    twice = [token for token, count in claims.items() if count > 1]
    if twice:
        return f"claimed twice under the same tokens: {twice}"
    if max(claims, default=0) > stored.token:
        return f"claimed under token {max(claims)}, stored is {stored.token}"
    return ""


@dataclass(slots=True)
class Staleness:
    """Writes that were asked for after another run of the job had been claimed."""

    refused: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


def stale_writes(lines: Sequence[Line]) -> Staleness:
    """Find the writes of runs that had been succeeded, and which of them were accepted.

    A write counts as stale only where it was begun after the answer to the later claim had come,
    so there is no doubt about which was first.
    """
    taken: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for line in lines:
        if line.what == "claim":
            taken[line.job].append((line.token, line.ended))
    staleness = Staleness()
    for line in lines:
        if line.what not in {"report", "progress", "extend"}:
            continue
        later = [
            token for token, ended in taken[line.job] if token > line.token and ended < line.began
        ]
        if not later:
            continue
        name = line.detail if line.what == "report" else line.what
        if line.accepted:
            staleness.findings.append(
                f"stale write accepted: {name} of {line.job} under token {line.token}, "
                f"which {max(later)} had been given before"
            )
        elif line.accepted is False:
            staleness.refused[name] += 1
    return staleness


def _counted_on(stored: Stored, lines: Sequence[Line]) -> bool:
    """Say whether attempts have their numbers: one after the other, but those given back again."""
    given_back = {line.token for line in lines if line.detail == "uncounted" and line.accepted}
    expected, number = [], 1
    for token in range(1, len(stored.outcomes) + 1):
        expected.append(number)
        number += token not in given_back
    return [made for made, _ in stored.outcomes] == expected and stored.token == len(expected)
