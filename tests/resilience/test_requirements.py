"""The requirements of the retry layer, by the names that their testing strategy gives them."""

import asyncio
import errno
import sqlite3

import asyncpg
import httpx
import psycopg
import pytest

from holdfast import (
    Category,
    CircuitState,
    Exponential,
    RetryService,
    StopReason,
    categorize,
    presets,
)
from holdfast.testing import ScriptedDownstream, VirtualClock, seeded_rng
from holdfast.testing.downstream import ok, status


def _status(code: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://api")
    return httpx.HTTPStatusError(
        str(code), request=request, response=httpx.Response(code, request=request)
    )


def _sqlite_error(code: int, text: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


class TestRetryService:
    def test_should_use_exponential_backoff(self):
        clock = VirtualClock()
        service = RetryService(clock=clock, rng=seeded_rng(1))
        result = service.execute_sync(_always(_status(503)), presets.GEMINI_API, "gemini")
        assert result.attempts == 3
        assert len(clock.sleeps) == 2
        for slept, nominal in zip(clock.sleeps, (1, 2), strict=True):
            assert 0.7 * nominal <= slept <= 1.3 * nominal

    def test_should_add_jitter_to_delays(self):
        backoff = presets.GEMINI_API.backoff
        rng = seeded_rng(5)
        for attempt, low, high in ((1, 0.7, 1.3), (2, 1.4, 2.6), (3, 2.8, 5.2)):
            drawn = [backoff.delay(attempt, rng) for _ in range(300)]
            assert all(low <= delay <= high for delay in drawn)
            assert min(drawn) < low * 1.1
            assert max(drawn) > high * 0.95
            assert len(set(drawn)) > 290

    @pytest.mark.parametrize(
        "error",
        [
            _status(429),
            Exception("Rate limit exceeded"),
            Exception("too many requests"),
            OSError(errno.ETIMEDOUT, "timed out"),
            OSError(errno.ECONNRESET, "reset"),
            Exception("request timeout"),
            _status(503),
            _status(502),
            _status(504),
            Exception("deadlock detected"),
            Exception("lock timeout"),
            Exception("connection lost"),
            Exception("something nobody has seen before"),
        ],
        ids=repr,
    )
    def test_should_categorize_errors_correctly_as_transient(self, error):
        assert categorize(error) is Category.TRANSIENT
        result = RetryService(clock=VirtualClock()).execute_sync(
            _always(error), presets.GEMINI_API, "gemini"
        )
        assert result.attempts == 3

    @pytest.mark.parametrize(
        "error",
        [
            _status(401),
            _status(403),
            Exception("Unauthorized"),
            Exception("Invalid API key"),
            _status(400),
            _status(404),
            Exception("Validation error: name is missing"),
            Exception("duplicate key value violates unique constraint"),
            Exception("violates foreign key constraint"),
        ],
        ids=repr,
    )
    def test_should_categorize_errors_correctly_as_permanent(self, error):
        assert categorize(error) is Category.PERMANENT
        result = RetryService(clock=VirtualClock()).execute_sync(
            _always(error), presets.GEMINI_API, "gemini"
        )
        assert (result.attempts, result.stop_reason) == (1, StopReason.PERMANENT)

    @pytest.mark.parametrize(
        "policy,threshold,open_for",
        [
            (presets.GEMINI_API, 5, 60),
            (presets.CHATMOCK_API, 3, 120),
            (presets.DATABASE, 10, 30),
        ],
        ids=["gemini", "chatmock", "database"],
    )
    def test_should_open_circuit_after_n_failures(self, policy, threshold, open_for):
        clock = VirtualClock()
        service = RetryService(clock=clock)
        made = 0

        def down():
            nonlocal made
            made += 1
            raise ConnectionRefusedError

        while service.names() == [] or service.circuit_state("svc").state is CircuitState.CLOSED:
            service.execute_sync(down, policy, "svc")
        assert made == threshold
        blocked = service.execute_sync(down, policy, "svc")
        assert made == threshold, "an open circuit blocks all requests"
        assert blocked.breaker_triggered
        assert blocked.attempts == 0
        assert service.circuit_state("svc").next_attempt_at == pytest.approx(
            clock.wall() + open_for
        )

    @pytest.mark.parametrize("recovered", [True, False])
    def test_should_transition_to_half_open_after_timeout(self, recovered):
        clock = VirtualClock()
        service = RetryService(clock=clock)
        _open(service, "gemini")
        opened = clock.monotonic()
        clock.advance_to(opened + 59.999)
        assert service.circuit_state("gemini").state is CircuitState.OPEN
        clock.advance_to(opened + 60)
        assert service.circuit_state("gemini").state is CircuitState.HALF_OPEN
        operation = (lambda: "back") if recovered else _always(ConnectionRefusedError())
        result = service.execute_sync(operation, presets.GEMINI_API, "gemini")
        assert result.ok is recovered
        expected = CircuitState.CLOSED if recovered else CircuitState.OPEN
        assert service.circuit_state("gemini").state is expected

    def test_should_respect_retry_after_header(self):
        clock = VirtualClock()
        service = RetryService(clock=clock)
        with ScriptedDownstream(status(429, retry_after=6), ok(b"{}")) as server:

            def fetch() -> str:
                answer = httpx.get(server.url, verify=False, trust_env=False)
                answer.raise_for_status()
                return answer.text

            result = service.execute_sync(fetch, presets.GEMINI_API, "gemini")
        assert (result.value, result.attempts) == ("{}", 2)
        assert clock.sleeps == [6]

    def test_manual_reset_closes_an_open_circuit(self):
        service = RetryService(clock=VirtualClock())
        _open(service, "gemini")
        service.reset_circuit("gemini")
        assert service.execute_sync(lambda: 1, presets.GEMINI_API, "gemini").ok


def _always(error: Exception):
    def operation():
        raise error

    return operation


def _open(service: RetryService, name: str) -> None:
    for _ in range(2):
        service.execute_sync(_always(ConnectionRefusedError("down")), presets.GEMINI_API, name)
    assert service.circuit_state(name).state is CircuitState.OPEN


def test_the_formula_is_the_initial_delay_times_the_multiplier_to_the_attempt_up_to_the_cap():
    for policy in (presets.GEMINI_API, presets.CHATMOCK_API, presets.DATABASE):
        backoff = policy.backoff
        for attempt in range(8):
            expected = min(backoff.base * backoff.multiplier**attempt, backoff.cap)
            assert backoff.nominal(attempt + 1) == expected
    assert [Exponential(base=1).nominal(n) for n in (1, 2, 3)] == [1, 2, 4]


class TestWithDatabaseRetry:
    """At the level of policy and category, with the drivers' own errors."""

    TRANSIENT = (
        _sqlite_error(sqlite3.SQLITE_BUSY, "database is locked"),
        _sqlite_error(sqlite3.SQLITE_LOCKED, "database table is locked"),
        psycopg.errors.DeadlockDetected("deadlock detected"),
        psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"),
        psycopg.errors.SerializationFailure("could not serialize access"),
        psycopg.errors.ConnectionFailure("server closed the connection unexpectedly"),
        psycopg.errors.TooManyConnections("too many connections"),
        asyncpg.exceptions.DeadlockDetectedError("deadlock detected"),
    )
    PERMANENT = (
        psycopg.errors.UniqueViolation("duplicate key value violates unique constraint"),
        psycopg.errors.ForeignKeyViolation("violates foreign key constraint"),
        psycopg.errors.NotNullViolation("null value"),
        psycopg.errors.UndefinedTable("relation does not exist"),
        asyncpg.exceptions.UniqueViolationError("duplicate key"),
    )

    @pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
    def test_should_retry_transient_database_errors(self, error):
        clock = VirtualClock()
        service = RetryService(clock=clock)
        outcomes = iter([error, error, error, error])

        def query():
            for outcome in outcomes:
                raise outcome
            return "row"

        result = service.execute_sync(query, presets.DATABASE, "db:find-user")
        assert (result.value, result.attempts) == ("row", 5)
        for slept, nominal in zip(clock.sleeps, (0.5, 1, 2, 4), strict=True):
            assert 0.7 * nominal <= slept <= min(1.3 * nominal, 4)

    @pytest.mark.parametrize("error", PERMANENT, ids=lambda error: type(error).__name__)
    def test_should_not_retry_constraint_violations(self, error):
        service = RetryService(clock=VirtualClock())
        result = service.execute_sync(_always(error), presets.DATABASE, "db:insert")
        assert (result.attempts, result.stop_reason) == (1, StopReason.PERMANENT)
        assert service.circuit_state("db:insert").failure_count == 0

    def test_should_not_retry_a_real_constraint_violation(self):
        service = RetryService(clock=VirtualClock())
        with sqlite3.connect(":memory:") as connection:
            connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY)")
            connection.execute("INSERT INTO users VALUES (1)")
            result = service.execute_sync(
                lambda: connection.execute("INSERT INTO users VALUES (1)"),
                presets.DATABASE,
                "db:insert",
            )
        connection.close()
        assert isinstance(result.error, sqlite3.IntegrityError)
        assert result.attempts == 1

    def test_should_retry_a_real_locked_database(self, tmp_path):
        service = RetryService(clock=VirtualClock())
        path = tmp_path / "locked.db"
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("CREATE TABLE t (n INTEGER)")
        holder.execute("BEGIN IMMEDIATE")
        attempts = 0

        # Opened inside the attempt: the policy's timeout may run each on a thread of its own.
        def write():
            nonlocal attempts
            attempts += 1
            if attempts == 3:
                holder.execute("COMMIT")
            connection = sqlite3.connect(path, timeout=0)
            try:
                with connection:
                    connection.execute("INSERT INTO t VALUES (1)")
            finally:
                connection.close()
            return "written"

        result = service.execute_sync(write, presets.DATABASE, "db:write")
        holder.close()
        assert (result.value, result.attempts) == ("written", 3)

    def test_should_retry_entire_transaction_on_deadlock(self):
        service = RetryService(clock=VirtualClock())
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE TABLE lectures (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE chunks (lecture INTEGER)")
        attempts = 0

        def transaction():
            nonlocal attempts
            attempts += 1
            with connection:
                connection.execute("INSERT INTO lectures VALUES (1)")
                if attempts < 3:
                    raise psycopg.errors.DeadlockDetected("deadlock detected")
                connection.execute("INSERT INTO chunks VALUES (1)")
            return "created"

        result = service.execute_sync(transaction, presets.DATABASE, "transaction:create-lecture")
        rows = connection.execute(
            "SELECT (SELECT count(*) FROM lectures), (SELECT count(*) FROM chunks)"
        ).fetchall()
        connection.close()
        assert (result.value, result.attempts) == ("created", 3)
        assert rows == [(1, 1)], "the first statement was repeated with the rest, not added to"


def test_a_thousand_concurrent_operations_with_10_percent_failures_succeed_above_99_5_percent():
    clock, chance = VirtualClock(), seeded_rng(2025)
    service = RetryService(clock=clock, rng=seeded_rng(1))

    async def operation():
        await asyncio.sleep(0.01)
        if chance.random() < 0.1:
            raise Exception("Deadlock")
        return {"success": True}

    async def main():
        calls = (service.execute(operation, presets.DATABASE, "load-test") for _ in range(1000))
        return await asyncio.gather(*calls)

    results = clock.run(main())
    assert sum(result.ok for result in results) / 1000 > 0.995


class TestTroubleshooting:
    def test_circuit_breaker_constantly_open(self):
        clock = VirtualClock()
        service = RetryService(clock=clock)
        _open(service, "operation-name")
        state = service.circuit_state("operation-name")
        assert f"State: {state.state}" == "State: OPEN"
        assert f"Failures: {state.failure_count}" == "Failures: 5"
        assert state.next_attempt_at == pytest.approx(clock.wall() + 60)
        service.reset_circuit("operation-name")
        assert service.circuit_state("operation-name").state is CircuitState.CLOSED
        assert service.circuit_state("operation-name").next_attempt_at is None

    def test_operations_timing_out(self):
        clock = VirtualClock()
        service = RetryService(clock=clock, rng=seeded_rng(4))
        result = service.execute_sync(lambda: clock.sleep(31), presets.GEMINI_API, "debug")
        assert result.attempts == 3
        assert [record.duration for record in result.history] == pytest.approx([30, 30, 30])
        delays = [record.delay for record in result.history]
        assert result.total_time == pytest.approx(90 + sum(delays))
        assert delays[2] == 0
        assert 0.7 <= delays[0] <= 1.3

    def test_the_dashboards_figures_come_from_the_metrics(self):
        service = RetryService(clock=VirtualClock())
        for _ in range(95):
            service.execute_sync(lambda: 1, presets.DATABASE, "svc")
        for retries in (1, 1, 1, 1, 2):
            outcomes = iter([ConnectionRefusedError()] * retries)

            def operation(outcomes=outcomes):
                for outcome in outcomes:
                    raise outcome

            service.execute_sync(operation, presets.DATABASE, "svc")
        metrics = service.metrics("svc")
        assert metrics.success_rate * 100 == 100
        assert metrics.retry_distribution == (95, 4, 1)
        assert metrics.p99_latency >= metrics.p95_latency >= metrics.p50_latency
