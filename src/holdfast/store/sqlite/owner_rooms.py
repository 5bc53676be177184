"""The limits of owners in one claim: looked up for the owners whose jobs it meets."""

from collections import Counter

from holdfast.jobs.downstreams.claim_permits import RateSpent
from holdfast.jobs.owner_limits import (
    STARTS_KEPT,
    OwnerLimits,
    RemainingStarts,
    default_for,
    load_limits,
)
from holdfast.store.sqlite.transaction import Transaction


class ClaimOwners:
    """How many more jobs of each owner a claim may start; `starts` counts.

    Args:
        default: the limits of owners without limits of their own.
    """

    def __init__(self, tx: Transaction, default: OwnerLimits) -> None:
        self._tx = tx
        self._default = default
        self._running = Counter(owner for (owner,) in tx.rows("claim_running_by_owner"))
        self.starts = RemainingStarts(tx.now)

    @classmethod
    def of(cls, tx: Transaction, default: OwnerLimits) -> "ClaimOwners | None":
        """Return the owners of a claim; None where no owner has limits."""
        if default.limits_claims or tx.value("claim_owners_are_limited") is not None:
            return cls(tx, default)
        return None

    def __contains__(self, owner: object) -> bool:
        """Say whether a job of `owner` may start; "" is no owner."""
        return isinstance(owner, str) and self.remaining(owner) > 0

    def remaining(self, owner: str) -> int:
        """Return how many more jobs of `owner` may start."""
        if not self.starts.knows(owner):
            found = self._tx.rows("owner_get", {"owner": owner})
            limits = load_limits(*found[0]) if found else default_for(owner, self._default)
            spent = self._tx.rows("claim_owner_spent", {"owner": owner}) if limits.rate else ()
            self.starts.add(owner, limits, self._running[owner], [RateSpent(*row) for row in spent])
        return self.starts.remaining(owner)

    def spend(self) -> None:
        """Store the starts that rates count."""
        lines, now = self.starts.spending(), self._tx.now
        for owner, width, bucket, spent, oldest in lines:
            slot = {"owner": owner, "width": width}
            given = {**slot, "bucket": bucket, "spent": spent, "now": now}
            self._tx.change("claim_owner_spend", given)
            self._tx.change("claim_owner_forget_spent", {**slot, "oldest": oldest})
        if lines:
            self._tx.change("claim_owner_trim", {"now": now, "kept": STARTS_KEPT})
