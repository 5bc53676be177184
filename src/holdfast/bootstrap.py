"""Wire stores to the engine: the one place that knows which address means which store."""

import difflib
import importlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import Listener
from holdfast.jobs.client.enqueue import Joining
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.codecs import PAYLOAD_LIMIT
from holdfast.jobs.engine import Engine as StoreEngine
from holdfast.jobs.store_port import Store, StoreUnusable

_SQLITE = ("sqlite",)
_POSTGRES = ("postgresql", "postgres")
_HELP = "use sqlite:///work.db for a file, or postgresql://user:password@host:5432/database"


class Engine(StoreEngine):
    """Everything that can be done with jobs, on the store at `url`. Open it with `async with`.

    Args:
        url: `sqlite:///work.db` (a path from here), `sqlite:////srv/work.db` (from the root), or
            `postgresql://user:password@host:5432/database`.
        apps: what declares the kinds of jobs.
        clock: where time comes from.
        listeners: told by workers of claims, outcomes, refusals and outages.
        payload_limit: bytes of JSON that the arguments of one job may have.

    Raises:
        StoreUnusable: the address cannot be understood, or its extra is not installed.
        ValueError: two apps have the same name, or declare one downstream differently.
    """

    def __init__(
        self,
        url: str,
        apps: Iterable[App] = (),
        *,
        clock: Clock = SYSTEM_CLOCK,
        listeners: Sequence[Listener] = (),
        payload_limit: int = PAYLOAD_LIMIT,
    ) -> None:
        store = open_store(url, clock=clock)
        super().__init__(
            store,
            apps,
            clock=clock,
            listeners=listeners,
            payload_limit=payload_limit,
            joining=store,
        )


class JoinableStore(Store, Joining, Protocol):
    """A store that also enqueues inside a transaction of the caller's."""


async def migrate(url: str) -> int:
    """Bring the schema of the store at `url` up to date and return its version.

    Raises:
        StoreUnusable: the address or the database cannot be used; the message says what to do.
        StoreUnavailable: the database does not answer.
    """
    async with open_store(url, migrate=True) as store:
        return await store.schema_version()


def load_app(reference: str) -> App:
    """Return the app that `reference` names, `mypackage.jobs:app`.

    Raises:
        ValueError: there is no such module, it has no such name, or that is no `App`.
    """
    app = load_reference(reference)
    if not isinstance(app, App):
        attribute = reference.partition(":")[2]
        raise ValueError(f"app {reference!r}: {attribute!r} is no App there, got {app!r}")
    return app


def load_reference(reference: str) -> object:
    """Return what `mypackage.jobs:app` names; None where the module has no such name.

    Raises:
        ValueError: it is not of that form, or there is no such module.
    """
    module_name, found, attribute = reference.partition(":")
    if not (found and module_name and attribute):
        raise ValueError(f"an app is named mypackage.jobs:app, got {reference!r}")
    # As `python -m` does: a person's own module lies where the command is given.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module is there, and misses something itself
        raise ValueError(f"app {reference!r}: there is no module {error.name!r}") from None
    return getattr(module, attribute, None)


def open_store(url: str, *, clock: Clock = SYSTEM_CLOCK, migrate: bool = False) -> JoinableStore:
    """Return the store at `url`, not opened yet: nothing is read or written.

    `migrate` lets opening it bring the schema up to date; the embedded store always does.

    Raises:
        StoreUnusable: the address cannot be understood, or its extra is not installed. Nothing of
            the address but its scheme is repeated, for it may hold a password.
    """
    if not isinstance(url, str):
        raise StoreUnusable(f"the database's address must be a string, got {type(url).__name__}")
    scheme, found, _ = url.partition("://")
    name = scheme.partition("+")[0].lower()
    if found and name in _SQLITE:
        return _sqlite(url, clock)
    if found and name in _POSTGRES:
        return _postgres(url, clock, migrate)
    raise StoreUnusable(_misunderstood(scheme if found else ""))


def _misunderstood(scheme: str) -> str:
    if not scheme:
        return f"the database's address has no scheme; {_HELP}"
    near = difflib.get_close_matches(scheme.lower(), (*_SQLITE, *_POSTGRES), n=1)
    guess = f"did you mean {near[0]}://? " if near else ""
    return f"the database's address has the unknown scheme {scheme!r}; {guess}{_HELP}"


def _sqlite(url: str, clock: Clock) -> JoinableStore:
    from holdfast.store.sqlite.store import SQLiteStore

    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc:
        raise StoreUnusable(
            "a sqlite address names a file after three slashes, sqlite:///work.db, or four where "
            "the path begins at the root, sqlite:////srv/work.db"
        )
    if path in {"", ":memory:"}:
        raise StoreUnusable("jobs are kept in a file: write sqlite:///work.db")
    if parts.query or parts.fragment:
        raise StoreUnusable("a sqlite address ends with the path: no '?' and no '#' after it")
    return SQLiteStore(path, clock=clock)


def _postgres(url: str, clock: Clock, migrate: bool) -> JoinableStore:
    try:
        from holdfast.store.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise StoreUnusable(
            "the PostgreSQL store needs asyncpg: pip install 'holdfast[postgres]'"
        ) from None
    _, _, rest = url.partition("://")
    return PostgresStore(f"postgresql://{rest}", clock=clock, migrate=migrate)
