"""`ctx.logger`: its records say which job they are about."""

import logging
from collections.abc import MutableMapping
from typing import Any


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Add `job_id`, `kind`, `attempt` and `owner` to every record, beside the caller's `extra`."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the message unchanged and `kwargs` with the job's fields in `extra`."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs
