"""API keys: created, listed and revoked by operators, and looked up for each request.

A secret is 256 random bits, and only its SHA-256 is stored. Slow hashes such as bcrypt protect
passwords, which people choose and attackers can guess; 256 random bits cannot be guessed however
fast the hash is, and a slow one would cost its time on every request. A key is found by the hash of
what a request brings, so no comparison depends on the secret and there is nothing to time.
"""

import hashlib
import secrets
from dataclasses import dataclass, field

from holdfast.clock import Clock
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.client.store_time import StoreTime
from holdfast.jobs.key_port import ApiKey
from holdfast.jobs.store_port import Store
from holdfast.resilience import checks

PREFIX = "hf_"
"""How every secret begins, so that people and scanners recognise one."""

RESERVED = "session:"
"""How the organisations of visitors without a key begin."""

_SECRET_BYTES = 32
_HINT_LENGTH = 7
_LONGEST = 200


class UnknownKey(HoldfastError, LookupError):
    """There is no API key `key_id`."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is no API key {key_id!r}")
        self.key_id = key_id


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new API key and its `secret`, which cannot be read again."""

    key: ApiKey
    secret: str = field(repr=False)


class KeyControl:
    """Create, list, find and revoke API keys."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._time = StoreTime(store, clock)

    async def create(self, *, owner: str, organisation: str, name: str) -> CreatedKey:
        """Create a key; its secret is in the answer and is stored nowhere.

        Args:
            owner: whose jobs its requests see and create, within the organisation; several keys
                may have the same.
            organisation: to which the owner belongs.
            name: what people call it, such as "laptop of Ann".

        Raises:
            ValueError: one of them is empty, has more than one line or more than 200 characters,
                or the organisation begins with "session:".
        """
        for field_name, value in (("organisation", organisation), ("owner", owner), ("name", name)):
            checks.label(field_name, value)
            if len(value) > _LONGEST or not value.isprintable():
                raise ValueError(
                    f"{field_name} must be one line of at most {_LONGEST} characters, without "
                    "control characters"
                )
        if organisation.startswith(RESERVED):
            raise ValueError(f"organisation: {RESERVED!r} is for visitors without a key")
        secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        key = ApiKey(
            id=secrets.token_hex(6),
            hint=secret[:_HINT_LENGTH],
            name=name,
            owner=owner,
            organisation=organisation,
            created_at=await self._time.now(),
        )
        await self._store.add_key(key, secret_hash(secret))
        return CreatedKey(key, secret)

    async def list(self) -> tuple[ApiKey, ...]:
        """Return all keys, also revoked ones, oldest first."""
        return await self._store.keys()

    async def find(self, secret: str) -> ApiKey | None:
        """Return the valid key with this secret; None if there is none. One indexed read."""
        return await self._store.find_key(secret_hash(secret))

    async def revoke(self, key_id: str) -> None:
        """Let a key open nothing from now on, in every process. Harmless if repeated.

        Raises:
            UnknownKey: there is none with this id.
        """
        if not await self._store.revoke_key(key_id):
            raise UnknownKey(key_id)


def secret_hash(secret: str) -> str:
    """Return the SHA-256 of a secret in hex, by which its key is found."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
