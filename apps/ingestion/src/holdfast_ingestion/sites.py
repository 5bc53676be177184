"""Sites as downstreams: each has a breaker of its own, so that a dead one holds only its documents.

A job belongs to the site of its document's address. Where that redirects to another site, the call
to the other one counts for the other one's breaker.
"""

import logging
from typing import Self

from holdfast import BreakerPolicy, Downstream, HoldfastError, JobContext, StoreError
from holdfast.fetch import FetchError
from holdfast_ingestion.extraction.extractor import ExtractionStopped
from holdfast_ingestion.uploads import StorageError

_log = logging.getLogger("holdfast.ingestion")


class OtherSiteFailed(FetchError):
    """Report that a site failed to which the document's own site has redirected."""

    @classmethod
    def of(cls, error: FetchError) -> Self:
        """Return `error` as one that does not count for the document's own site."""
        made = cls(error.code, str(error), status=error.status, retry_after=error.retry_after)
        made.site = error.site
        return made


_BREAKER = BreakerPolicy(
    consecutive_failures=5,
    open_for=60,
    trial_calls=1,
    # Failures of ours and of other sites say nothing of this one.
    exclude=(ExtractionStopped, OtherSiteFailed, StorageError, StoreError),
)


SITE = Downstream(
    "host",
    breaker=_BREAKER,
    # One that accepts connections and never answers would else occupy all places for the whole
    # time of a fetch.
    unproven_concurrency=1,
    key=lambda args: args.host,
)
"""The downstream of all sites, split by host."""


async def report_call(ctx: JobContext, host: str, code: str | None = None) -> None:
    """Count a call to another site than the job's own; `code` is that of its failure."""
    try:
        await ctx.engine.calls.count(f"host:{host}", _BREAKER, code)
    except HoldfastError as error:
        # The document does not depend on it.
        _log.warning("a call to the site %s could not be counted: %s", host, error)
