"""API keys: both stores have statements of the same names and columns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from holdfast.jobs.key_port import ApiKey
from holdfast.store.row_mapping import Row


class ApiKeys(ABC):
    """A store's API keys, but for how it runs a statement; see `KeyStore`."""

    @abstractmethod
    async def _rows(self, query: str, **parameters: Any) -> Sequence[Row]:
        """Run the named `query` and return its rows."""

    @abstractmethod
    async def _changed_rows(
        self, query: str, now: float | None, **parameters: Any
    ) -> Sequence[Row]:
        """Run the named `query`, which writes, and return its rows."""

    async def add_key(self, key: ApiKey, secret_hash: str) -> None:
        """Store `key`."""
        await self._changed_rows(
            "key_add", key.created_at, id=key.id, secret_hash=secret_hash, hint=key.hint,
            name=key.name, owner=key.owner, organisation=key.organisation,
        )  # fmt: skip

    async def keys(self) -> tuple[ApiKey, ...]:
        """Return all keys, oldest first."""
        return tuple(ApiKey(*row) for row in await self._rows("key_list"))

    async def find_key(self, secret_hash: str) -> ApiKey | None:
        """Return the valid key with this hash."""
        found = await self._rows("key_find", secret_hash=secret_hash)
        return ApiKey(*found[0]) if found else None

    async def revoke_key(self, key_id: str, *, now: float | None = None) -> bool:
        """Revoke a key."""
        return bool(await self._changed_rows("key_revoke", now, id=key_id))
