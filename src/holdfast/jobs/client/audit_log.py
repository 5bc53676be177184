"""The audit log: what people have changed."""

import logging
from collections.abc import Mapping
from typing import Any

from holdfast.clock import Clock
from holdfast.jobs.client.store_time import StoreTime
from holdfast.jobs.error_text import clean
from holdfast.jobs.operations_port import AuditEntry, AuditPage
from holdfast.jobs.store_port import Store
from holdfast.resilience import checks

_log = logging.getLogger("holdfast.audit")
MOST_ENTRIES = 1000
"""Most entries on one page."""


class AuditLog:
    """Write and read the audit log. Entries are kept for 90 days, and 100 000 at most."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._time = StoreTime(store, clock)

    async def record(
        self,
        action: str,
        target: str = "",
        *,
        who: str,
        role: str = "full",
        detail: Mapping[str, Any] | None = None,
    ) -> AuditEntry:
        """Write down a change that a person has made; return the entry.

        The arguments are those of `entry`.
        """
        entry = await self.entry(action, target, who=who, role=role, detail=detail)
        try:
            await self._store.add_audit(entry)
        except BaseException:
            # The change is made, and the log must say by whom.
            _log.exception("not in the audit log: %s %s %s", who, action, target)
            raise
        return entry

    async def entry(
        self,
        action: str,
        target: str = "",
        *,
        who: str,
        role: str = "full",
        detail: Mapping[str, Any] | None = None,
    ) -> AuditEntry:
        """Return the entry of a change, for a method that writes both in one transaction.

        Args:
            action: what was done, such as `downstreams.reset`.
            target: to what, such as the name of a downstream or the id of a job.
            who: the name of the person or of the token.
            role: what the person may do.
            detail: what else is known of it, as JSON takes it; no secrets.
        """
        checks.label("action", action)
        checks.label("who", who)
        at = await self._time.now()
        return AuditEntry(at, clean(who), role, action, clean(target), detail or {})

    async def list(self, *, cursor: str | None = None, limit: int = 50) -> AuditPage:
        """Return entries, newest first, and the cursor of the next page.

        Raises:
            ValueError: `limit` is not from 0 to 1000, or `cursor` is not valid.
        """
        checks.whole("limit", limit, at_least=0, at_most=MOST_ENTRIES)
        return await self._store.audit(cursor=cursor, limit=limit)
