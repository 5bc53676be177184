"""How a relay works."""

from dataclasses import dataclass, field

from holdfast.resilience import checks
from holdfast.resilience.backoff import Exponential

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """How a relay works. Times are seconds.

    Args:
        poll_interval: between two looks at the outbox without any hint.
        batch_size: messages that are claimed together and are on their way together.
        batches: batches at a time: some are published while others are marked and claimed.
        lease_seconds: after which the messages of a dead relay are taken over. A message must be
            confirmed within a third of it.
        max_attempts: failures after which a message that is refused is `failed`.
        backoff: the delays between them.
        stale_after: the log warns of a message that has waited for so long.
        keep_published: after which published messages are deleted.
        keep_handled: after which the inbox forgets a request.
        tidy_every: between two deletions.
    """

    poll_interval: float = 5.0
    batch_size: int = 50
    batches: int = 4
    lease_seconds: float = 20.0
    max_attempts: int = 10
    backoff: Exponential = field(default_factory=lambda: Exponential(base=1.0, cap=60.0))
    stale_after: float = 60.0
    keep_published: float = 7 * _DAY
    keep_handled: float = 30 * _DAY
    tidy_every: float = 60.0

    def __post_init__(self) -> None:
        for name in ("poll_interval", "lease_seconds", "stale_after", "tidy_every"):
            checks.number(name, getattr(self, name), at_least=0.001)
        for name in ("batch_size", "batches", "max_attempts"):
            checks.whole(name, getattr(self, name), at_least=1)
        for name in ("keep_published", "keep_handled"):
            checks.number(name, getattr(self, name), at_least=0)
