"""Commands for API keys."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from holdfast.cli.store_command import with_engine
from holdfast.cli.usage import UsageError
from holdfast.jobs.client.api_keys import KeyControl, UnknownKey

T = TypeVar("T")

_COLUMNS = ("id", "begins", "name", "owner", "organisation", "created", "revoked")


def create(database: str | None, *, name: str, organisation: str, owner: str | None) -> int:
    """Create a key and print its secret; the owner is by default called as the organisation."""
    try:
        created = _with_keys(
            database,
            lambda keys: keys.create(
                owner=owner or organisation, organisation=organisation, name=name
            ),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    print(created.secret)
    return 0


def list_keys(database: str | None) -> int:
    """Print all keys, also revoked ones, as columns separated by tabs."""
    print("\t".join(_COLUMNS))
    for key in _with_keys(database, lambda keys: keys.list()):
        created, revoked = _moment(key.created_at), _moment(key.revoked_at)
        fields = (key.id, key.hint, key.name, key.owner, key.organisation, created, revoked)
        print("\t".join(fields))
    return 0


def revoke(database: str | None, *, key_id: str) -> int:
    """Revoke a key; running servers refuse it at once."""
    try:
        _with_keys(database, lambda keys: keys.revoke(key_id))
    except UnknownKey as error:
        raise UsageError(f"{error}; see: holdfast keys list") from None
    print(f"the key {key_id} is revoked")
    return 0


def _with_keys(database: str | None, work: Callable[[KeyControl], Awaitable[T]]) -> T:
    return with_engine(database, lambda engine: work(engine.keys))


def _moment(at: float | None) -> str:
    """Return epoch seconds as a time of day in UTC; "-" for none."""
    return "-" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
