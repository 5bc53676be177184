"""What a store does for API keys: it knows their hashes, never the secrets."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its secret.

    Args:
        id: its name for `revoke`.
        hint: the beginning of the secret, to tell keys apart.
        name: what people call it.
        owner: who uses it; owners of the same name in two organisations have nothing in common.
        organisation: to which the owner belongs; apps keep the data of organisations apart.
        created_at: epoch seconds.
        revoked_at: since when it opens nothing, in epoch seconds; None if it is valid.
    """

    id: str
    hint: str
    name: str
    owner: str
    organisation: str
    created_at: float
    revoked_at: float | None = None

    @property
    def job_owner(self) -> str:
        """The owner of the jobs that a request with this key sees and creates.

        Another organisation or owner makes another text: the length says where the first ends. No
        session has such an owner, for none has a colon.
        """
        return f"key:{len(self.organisation)}:{self.organisation}:{self.owner}"


class KeyStore(Protocol):
    """Keep API keys."""

    async def add_key(self, key: ApiKey, secret_hash: str) -> None:
        """Store `key`; it is found by `secret_hash`, the SHA-256 of its secret in hex."""
        ...

    async def keys(self) -> tuple[ApiKey, ...]:
        """Return all keys, also revoked ones, oldest first."""
        ...

    async def find_key(self, secret_hash: str) -> ApiKey | None:
        """Return the key with this hash; None if there is none, or it was revoked."""
        ...

    async def revoke_key(self, key_id: str, *, now: float | None = None) -> bool:
        """Revoke a key, at once and for every process; False if there is none.

        A key that was revoked before keeps its time.
        """
        ...
