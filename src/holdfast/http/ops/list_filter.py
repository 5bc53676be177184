"""Which jobs a list shows: filters that stand in the address of the page."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self
from urllib.parse import urlencode

from holdfast.jobs.declare.validation import UNSTORABLE
from holdfast.jobs.model import JobStatus
from holdfast.jobs.views import JobFilter

SPANS = {"1h": 3600.0, "1d": 86_400.0, "7d": 604_800.0}
"""Ages in seconds of the jobs to list, by the word in the address."""
SPAN_WORDS = {"1h": "Last hour", "1d": "Last day", "7d": "Last 7 days"}
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What the form says; "" does not narrow the choice.

    Args:
        status: a job's status.
        q: a part of the id, the kind, the owner, the error's message or the meta.
        error: a part of the error's message.
        group: a normalised message, see `normalise_error`.
        retried: "1" for jobs with more than one attempt.
        since: a key of `SPANS`.
        cursor: the page of the list.
    """

    q: str = ""
    status: str = ""
    kind: str = ""
    queue: str = ""
    downstream: str = ""
    owner: str = ""
    id: str = ""
    code: str = ""
    error: str = ""
    group: str = ""
    retried: str = ""
    since: str = ""
    cursor: str = ""

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Self:
        """Return what `values`, of an address or a form, say; what means nothing is left out."""
        given = {
            each.name: UNSTORABLE.sub("", values.get(each.name, "")).strip()[:_LONGEST]
            for each in fields(cls)
        }
        if given["status"] not in set(JobStatus):
            given["status"] = ""
        if given["since"] not in SPANS:
            given["since"] = ""
        return cls(**given)

    def as_filter(self, now: float) -> JobFilter:
        """Return it as the engine takes it; `now` is the store's clock, epoch seconds."""
        return JobFilter(
            statuses=(JobStatus(self.status),) if self.status else (),
            kinds=(self.kind,) if self.kind else (),
            queue=self.queue or None,
            downstream=self.downstream or None,
            owner=self.owner or None,
            id=self.id or None,
            error_code=self.code or None,
            error_text=self.error or None,
            error_group=self.group or None,
            text=self.q or None,
            min_attempts=2 if self.retried else None,
            created_from=now - SPANS[self.since] if self.since else None,
        )

    def given(self) -> dict[str, str]:
        """Return the fields that narrow the choice, without the cursor."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value and name != "cursor"}

    def path(self, page: str, **changes: str) -> str:
        """Return the address of `page` with these filters, changed as `changes` say."""
        changed = replace(self, **{"cursor": "", **changes})
        values = changed.given() | ({"cursor": changed.cursor} if changed.cursor else {})
        return f"{page}?{urlencode(values)}" if values else page
