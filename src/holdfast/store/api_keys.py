"""API keys: both stores have statements of the same names and columns."""

from holdfast.jobs.key_port import ApiKey
from holdfast.store.statements import Statements


class ApiKeys(Statements):
    """A store's API keys, but for how it runs a statement; see `KeyStore`."""

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
