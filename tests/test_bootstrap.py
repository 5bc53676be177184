"""Database URLs: which store they select, and the errors for invalid ones."""

import asyncio
import contextlib
import sys

import apsw
import asyncpg
import pytest
from tests.support.modules import forget_modules
from tests.support.postgres import obtain

from holdfast.bootstrap import Engine, default_owner_limits, delivering_app, open_store
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.validation import PayloadTooLarge
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.owner_limits import OwnerLimits
from holdfast.jobs.store_port import StoreUnusable
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.resilience.policy import RateLimit
from holdfast.settings import BadSetting, Environment
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock


@pytest.mark.parametrize(
    "url, path",
    [
        ("sqlite:///work.db", "work.db"),
        ("sqlite:///data/work.db", "data/work.db"),
        ("sqlite:////srv/work.db", "/srv/work.db"),
        ("SQLite:///work.db", "work.db"),
        ("sqlite+aiosqlite:///work.db", "work.db"),
        ("sqlite:///my%20work.db", "my work.db"),
    ],
)
def test_three_slashes_begin_a_path_from_here_and_four_one_from_the_root(url, path):
    store = open_store(url)
    assert isinstance(store, SQLiteStore)
    assert str(store.path) == path


def test_opening_by_address_touches_nothing_yet(tmp_path):
    open_store(f"sqlite:///{tmp_path}/work.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url, said",
    [
        ("sqllite:///work.db", "unknown scheme 'sqllite'; did you mean sqlite://"),
        ("postgress://me@db/x", "unknown scheme 'postgress'; did you mean postgres"),
        ("postgersql://me@db/x", "did you mean postgresql://"),
        ("mysql://me@db/x", "unknown scheme 'mysql'; .*use sqlite:///work.db"),
        ("work.db", "has no scheme; use sqlite:///work.db"),
        ("", "has no scheme; use sqlite:///work.db"),
        ("sqlite:/work.db", "has no scheme"),
        ("sqlite://work.db", "a file after three slashes, sqlite:///work.db"),
        ("sqlite://", "jobs are kept in a file: write sqlite:///work.db"),
        ("sqlite:///", "jobs are kept in a file: write sqlite:///work.db"),
        ("sqlite:///:memory:", "jobs are kept in a file"),
        ("sqlite:///work.db?timeout=5", "ends with the path: no '[?]'"),
        ("sqlite:///work.db#x", "ends with the path"),
        (None, "address must be a string, got NoneType"),
    ],
)
def test_an_address_with_a_mistake_is_refused_with_the_way_to_write_it(url, said):
    with pytest.raises(StoreUnusable, match=said):
        open_store(url)


def test_a_refusal_does_not_repeat_the_password():
    with pytest.raises(StoreUnusable) as caught:
        open_store("postgrs://me:hunter2@db/x")
    assert "hunter2" not in str(caught.value)


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(monkeypatch):
    forget_modules(monkeypatch, "holdfast.store.postgres")
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreUnusable, match=r"pip install 'holdfast\[postgres\]'"):
        open_store("postgresql://me@localhost/x")


@pytest.mark.parametrize(
    "url", ["postgresql://me@localhost/x", "postgres://me@localhost/x", "postgresql+asyncpg://h/x"]
)
def test_postgresql_addresses_open_its_store(url):
    from holdfast.store.postgres.store import PostgresStore

    assert isinstance(open_store(url), PostgresStore)


def test_an_engine_is_opened_by_url_with_all_its_options(tmp_path):
    app = App("invoices")

    @app.job(deadline=60)
    def send(ctx, args: str) -> str:
        return args

    clock, heard = VirtualClock(), []

    async def main():
        url = f"sqlite:///{tmp_path}/work.db"
        engine = Engine(url, [app], clock=clock, listeners=[heard.append], payload_limit=10)
        assert isinstance(engine, StoreEngine)
        async with engine:
            handle = await engine.enqueue(send, "short")
            assert (await engine.get(handle)).deadline_at == clock.wall() + 60
            with pytest.raises(PayloadTooLarge):
                await engine.enqueue(send, "longer than ten")

    asyncio.run(main())


def test_a_missing_folder_is_reported(tmp_path):
    async def main():
        async with Engine(f"sqlite:///{tmp_path}/no/such/work.db"):
            pass

    with pytest.raises(StoreUnusable, match="no/such"):
        asyncio.run(main())


def with_engine(tmp_path, scenario):
    app = App("invoices")

    @app.job()
    def double(ctx, args: int) -> int:
        return args * 2

    async def main():
        async with Engine(f"sqlite:///{tmp_path}/work.db", [app]) as engine:
            await scenario(engine, double, tmp_path / "work.db")

    asyncio.run(main())


@contextlib.contextmanager
def transaction(path):
    """Yield an apsw connection in a transaction, which is rolled back unless it is committed."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def test_a_job_enqueued_on_a_callers_connection_comes_to_be_with_its_commit(tmp_path):
    async def scenario(engine, double, path):
        before = await engine.enqueue(double, 1)
        with transaction(path) as connection:
            handle = await engine.enqueue(double, 4, connection=connection)
            assert await engine.get(handle) is None
            connection.execute("COMMIT")
        await engine.work(until_idle=True)
        assert await engine.result(handle) == 8
        assert await engine.result(before) == 2
        assert len(await engine.events(before)) == len(await engine.events(handle)) == 3

    with_engine(tmp_path, scenario)


def test_a_job_enqueued_in_a_transaction_that_is_rolled_back_never_was(tmp_path):
    async def scenario(engine, double, path):
        with transaction(path) as connection:
            handle = await engine.enqueue(double, 4, connection=connection)
        assert await engine.get(handle) is None
        assert (await engine.stats()).lanes == ()
        assert (await engine.enqueue(double, 4)).created

    with_engine(tmp_path, scenario)


def test_a_twin_is_found_inside_a_callers_transaction_too(tmp_path):
    async def scenario(engine, double, path):
        first = await engine.enqueue(double, 1, dedup_key="one")
        with transaction(path) as connection:
            twin = await engine.enqueue(double, 2, dedup_key="one", connection=connection)
            connection.execute("COMMIT")
        assert (twin.id, twin.created) == (first.id, False)

    with_engine(tmp_path, scenario)


def test_a_connection_of_an_unknown_type_is_refused_before_anything_is_stored(tmp_path):
    async def scenario(engine, double, path):
        with pytest.raises(
            TypeError, match=r"takes an apsw connection to .*, got builtins\.object"
        ):
            await engine.enqueue(double, 1, connection=object())
        assert (await engine.list()).jobs == ()

    with_engine(tmp_path, scenario)


@pytest.fixture
def migrated_database():
    from holdfast.store.postgres.store import PostgresStore

    server = obtain(fsync=False)
    url = server.url(server.create_database())
    asyncio.run(PostgresStore(url).migrate())
    yield url
    server.close()


def test_the_same_app_runs_on_postgresql(migrated_database):
    app = App("invoices")

    @app.job(downstream=Downstream("host", key=str), deadline=60)
    def double(ctx, args: int) -> int:
        return args * 2

    async def main():
        async with Engine(migrated_database, [app]) as engine:
            handle = await engine.enqueue(double, 4, dedup_key="four")
            assert not (await engine.enqueue(double, 4, dedup_key="four")).created
            await engine.work(until_idle=True)
            assert await engine.result(handle) == 8
            assert await engine.downstreams.state("host:4") is CircuitState.CLOSED
            theirs = await asyncpg.connect(migrated_database)
            transaction = theirs.transaction()
            await transaction.start()
            never = await engine.enqueue(double, 5, connection=theirs)
            await transaction.rollback()
            async with theirs.transaction():
                joined = await engine.enqueue(double, 6, connection=theirs)
                assert await engine.get(joined) is None
            await theirs.close()
            await engine.work(until_idle=True)
            assert await engine.result(joined) == 12
            assert await engine.get(never) is None

    asyncio.run(main())


def test_webhooks_are_delivered_through_the_fetcher_of_the_settings():
    app = delivering_app(Environment({}))

    assert app is not None
    assert [kind.name for kind in app.kinds] == ["holdfast-webhooks.deliver"]
    with pytest.raises(BadSetting, match="FETCH_ALLOW_PRIVATE"):
        delivering_app(Environment({"FETCH_ALLOW_PRIVATE": "perhaps"}))


def test_without_httpcore_no_webhooks_are_delivered(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpcore", None)

    assert delivering_app(Environment({})) is None


@pytest.mark.parametrize(
    "values, limits",
    [
        ({}, OwnerLimits()),
        ({"CONCURRENCY": "3", "WAITING": "100"}, OwnerLimits(concurrency=3, waiting=100)),
        ({"STORAGE_BYTES": "1000000000000"}, OwnerLimits(storage_bytes=10**12)),
        ({"PER_MINUTE": "5"}, OwnerLimits(rate=RateLimit(per_minute=5))),
        (
            {"PER_SECOND": "1", "PER_DAY": "9"},
            OwnerLimits(rate=RateLimit(per_second=1, per_day=9)),
        ),
    ],
)
def test_settings_limit_every_owner(values, limits):
    environment = Environment({f"HOLDFAST_OWNER_{name}": text for name, text in values.items()})
    assert default_owner_limits(environment) == limits


@pytest.mark.parametrize("text", ["0", "-1", "five", "1.5"])
def test_a_setting_that_cannot_be_a_limit_is_named(text):
    with pytest.raises(BadSetting, match="HOLDFAST_OWNER_PER_DAY must be a whole number"):
        default_owner_limits(Environment({"HOLDFAST_OWNER_PER_DAY": text}))
