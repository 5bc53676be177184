"""Wire stores to the engine: the one place that maps a URL to a store."""

import difflib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.events import Listener
from holdfast.jobs.client.enqueue import TransactionalEnqueue
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.codecs import PAYLOAD_LIMIT
from holdfast.jobs.engine import BlockingStoreEngine, StoreEngine
from holdfast.jobs.owner_limits import MOST, MOST_BYTES, NO_LIMITS, OwnerLimits
from holdfast.jobs.store_port import BadAddress, Store, StoreUnusable
from holdfast.outbox.blocking import BlockingHandling, BlockingInbox, BlockingOutbox
from holdfast.outbox.client import Outbox
from holdfast.outbox.handling import Handling, HandlingStore
from holdfast.outbox.inbox import Inbox
from holdfast.outbox.options import RelayOptions
from holdfast.outbox.ports import InboxStore, OutboxStore, Publisher
from holdfast.outbox.relay import Relay
from holdfast.resilience.policy import MOST_REMEMBERED, RateLimit
from holdfast.settings import Environment
from holdfast.store.migrations import Migratable, Missing
from holdfast.trace_port import Tracing

if TYPE_CHECKING:
    from holdfast.store.sqlite.backup import DatabaseFile

_SQLITE = ("sqlite",)
_POSTGRES = ("postgresql", "postgres")
_HELP = "use sqlite:///work.db for a file, or postgresql://user:password@host:5432/database"


class Engine(StoreEngine):
    """Enqueue and run jobs on the store at `url`. Open it with `async with`.

    Args:
        url: `sqlite:///work.db` (relative), `sqlite:////srv/work.db` (absolute), or
            `postgresql://user:password@host:5432/database`.
        apps: the apps that declare the job kinds.
        clock: the source of time.
        listeners: receive the workers' events: claims, outcomes, refusals, outages; beside those
            of the apps.
        payload_limit: most bytes of JSON in one job's arguments, and in its result.
        owner_limits: the limits of owners who have none of their own, see `engine.owners`; give all
            engines on one store the same.

    Attributes:
        outbox: adds messages in the caller's transaction; lists, requeues and discards them.
        inbox: records handled requests in the caller's transaction.
        handling: lets one delivery at a time handle a request.

    Raises:
        StoreUnusable: the URL is invalid, or its extra is not installed.
        ValueError: two apps have the same name, or declare one downstream or error code
            differently; or a kind has the name or an alias of another.
    """

    def __init__(
        self,
        url: str,
        apps: Iterable[App] = (),
        *,
        clock: Clock = SYSTEM_CLOCK,
        listeners: Sequence[Listener] = (),
        payload_limit: int = PAYLOAD_LIMIT,
        owner_limits: OwnerLimits = NO_LIMITS,
    ) -> None:
        store = open_store(url, clock=clock)
        super().__init__(
            store,
            apps,
            clock=clock,
            listeners=listeners,
            payload_limit=payload_limit,
            transactional=store,
            owner_limits=owner_limits,
        )
        self._messages = store.outbox
        self.outbox = Outbox(store.outbox, clock)
        self.inbox = Inbox(store.outbox)
        self.handling = Handling(store.outbox, clock)

    def trace_with(self, tracing: Tracing) -> None:
        """Trace jobs and messages of the outbox; for `telemetry.tracing`."""
        super().trace_with(tracing)
        self.outbox.tracing = self.handling.tracing = tracing

    def relay(self, publisher: Publisher, options: RelayOptions | None = None) -> Relay:
        """Return a relay that hands the messages of the outbox to `publisher`.

        The caller runs it, `await relay.run()`, while this engine is open.
        """
        return Relay(self._messages, publisher, options, inbox=self._messages, clock=self.clock)

    def blocking(self) -> "BlockingEngine":
        """Return this engine for code that is not async: the same methods, which block.

            with engine.blocking() as engine:
                job = engine.enqueue(send, SendArgs(...))

        It is open in a thread of its own, and any thread may call it.
        """
        return BlockingEngine(self)


class BlockingEngine(BlockingStoreEngine):
    """An engine whose methods block, with its outbox, inbox and handling of requests."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.outbox = BlockingOutbox(engine.outbox, self._thread.run)
        self.inbox = BlockingInbox(engine.inbox, self._thread.run, self._thread.check_usable)
        self.handling = BlockingHandling(engine.handling, self._thread.run)


class MessageStore(OutboxStore, InboxStore, HandlingStore, Protocol):
    """Keeps messages, and the requests that are handled."""


class TransactionalStore(Store, TransactionalEnqueue, Migratable, Protocol):
    """A store that also enqueues in the caller's transaction, and says what its schema lacks."""

    @property
    def outbox(self) -> MessageStore:
        """The part that keeps messages."""
        ...


def delivering_app(environment: Environment) -> App | None:
    """Return the app that delivers webhooks through the guarded fetcher, as settings say.

    None where httpcore, which `holdfast[fetch]` brings, is not installed.

    Raises:
        BadSetting: a setting cannot be used.
    """
    if importlib.util.find_spec("httpcore") is None:
        return None
    from holdfast.fetch import FETCH_ERRORS, Fetcher
    from holdfast.webhooks import webhooks_app

    return webhooks_app(Fetcher.from_environment(environment), errors=FETCH_ERRORS)


def default_owner_limits(environment: Environment) -> OwnerLimits:
    """Return the limits of every owner, as settings say.

    Raises:
        BadSetting: a setting cannot be used.
    """
    read = environment.optional_whole
    per_second, per_minute, per_day = (
        read(f"HOLDFAST_OWNER_{period}", at_most=MOST_REMEMBERED)
        for period in ("PER_SECOND", "PER_MINUTE", "PER_DAY")
    )
    rated = (per_second, per_minute, per_day) != (None, None, None)
    return OwnerLimits(
        concurrency=read("HOLDFAST_OWNER_CONCURRENCY", at_most=MOST),
        rate=RateLimit(per_minute, per_day, per_second) if rated else None,
        waiting=read("HOLDFAST_OWNER_WAITING", at_most=MOST),
        storage_bytes=read("HOLDFAST_OWNER_STORAGE_BYTES", at_most=MOST_BYTES),
    )


async def migrate(url: str, apps: Iterable[App] = ()) -> int:
    """Bring the schema of the store at `url` up to date and return its version.

    The tables of `apps` are created and migrated with it.

    Raises:
        StoreUnusable: the URL or the database cannot be used; the message says what to do.
        StoreUnavailable: the database does not answer.
    """
    async with _with_tables(open_store(url, migrate=True), apps) as store:
        return await store.schema_version()


async def missing_migrations(url: str, apps: Iterable[App] = ()) -> Missing:
    """Return what the schema of the store at `url` lacks, changing nothing; see `migrate`."""
    return await _with_tables(open_store(url), apps).missing()


async def migration_script(url: str, apps: Iterable[App] = ()) -> str:
    """Return the SQL that `migrate` would run on the store at `url`, changing nothing."""
    return await _with_tables(open_store(url), apps).migration_script()


def _with_tables(store: TransactionalStore, apps: Iterable[App]) -> TransactionalStore:
    for app in apps:
        if app.tables is not None:
            store.use_tables(app.name, app.tables.package)
    return store


class BadReference(ValueError):
    """A reference such as `mypackage.jobs:app` has another form, or names no module."""


def load_reference(reference: str, what: str = "app") -> object:
    """Return the object that `mypackage.jobs:app` names; None if the module lacks the name.

    `what` is what error messages call it.

    Raises:
        BadReference: it does not have that form, or there is no such module.
    """
    module_name, found, attribute = reference.partition(":")
    if not (found and module_name and attribute):
        raise BadReference(f"{what} is named as mypackage.module:name, got {reference!r}")
    # As `python -m` does: the user's module may be in the current directory.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module exists; one of its own imports is missing
        raise BadReference(f"{what} {reference!r}: there is no module {error.name!r}") from None
    return getattr(module, attribute, None)


def open_store(
    url: str, *, clock: Clock = SYSTEM_CLOCK, migrate: bool = False
) -> TransactionalStore:
    """Return the store at `url`, not opened yet: nothing is read or written.

    `migrate` updates the schema on opening; the embedded store always does.

    Raises:
        BadAddress: the URL is invalid. The message shows only its scheme, since the rest may
            contain a password.
        StoreUnusable: its extra is not installed.
    """
    if not isinstance(url, str):
        raise BadAddress(f"the database's address must be a string, got {type(url).__name__}")
    scheme, found, _ = url.partition("://")
    name = scheme.partition("+")[0].lower()
    if found and name in _SQLITE:
        return _sqlite(url, clock)
    if found and name in _POSTGRES:
        return _postgres(url, clock, migrate)
    raise BadAddress(_unknown_scheme(scheme if found else ""))


def _unknown_scheme(scheme: str) -> str:
    if not scheme:
        return f"the database's address has no scheme; {_HELP}"
    near = difflib.get_close_matches(scheme.lower(), (*_SQLITE, *_POSTGRES), n=1)
    guess = f"did you mean {near[0]}://? " if near else ""
    return f"the database's address has the unknown scheme {scheme!r}; {guess}{_HELP}"


def database_file(url: str) -> "DatabaseFile | None":
    """Return the database at `url` for backups, where it is a file; None where it is a server.

    Raises:
        BadAddress: the URL is invalid.
    """
    scheme, found, _ = url.partition("://")
    name = scheme.partition("+")[0].lower()
    if found and name in _SQLITE:
        from holdfast.store.sqlite.backup import DatabaseFile

        return DatabaseFile(Path(_sqlite_path(url)))
    if found and name in _POSTGRES:
        return None
    raise BadAddress(_unknown_scheme(scheme if found else ""))


def end_leases(path: Path) -> None:
    """Let the jobs that ran when a database was copied be claimed again, in the copy at `path`."""
    from holdfast.store.sqlite import backup

    backup.end_leases(path)


def _sqlite(url: str, clock: Clock) -> TransactionalStore:
    from holdfast.store.sqlite.store import SQLiteStore

    return SQLiteStore(_sqlite_path(url), clock=clock)


def _sqlite_path(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc:
        raise BadAddress(
            "a sqlite address names a file after three slashes, sqlite:///work.db, or four where "
            "the path begins at the root, sqlite:////srv/work.db"
        )
    if path in {"", ":memory:"}:
        raise BadAddress("jobs are kept in a file: write sqlite:///work.db")
    if parts.query or parts.fragment:
        raise BadAddress("a sqlite address ends with the path: no '?' and no '#' after it")
    return path


def _postgres(url: str, clock: Clock, migrate: bool) -> TransactionalStore:
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
