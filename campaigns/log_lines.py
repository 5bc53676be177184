"""Find lines at WARNING or above, in the logs of workers, servers and poolers, that are not listed.

A line that is not listed below is a finding: either it tells of a mistake, or it is one to log it.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple


class Listed(NamedTuple):
    """What may be logged, and its cause. A pattern matches a whole record, traceback included."""

    pattern: str
    cause: str


_JOB = r"holdfast\.worker job \S+"
_POISON = rf"{_JOB} \(mail\.unreadable\)"
_RESCUED = r"holdfast\.maintenance job \S+ \(\S+\)"
_ATTEMPT = r"attempt \d+ of \d+"
_DEAD = rf"after {_ATTEMPT} \(\w+\)"

WORKER = (
    Listed(r"holdfast\.worker \S+: the store does not answer, waiting for it: .*", "outage"),
    Listed(r"holdfast\.worker \S+: the store answers again after [\d.]+ s", "outage"),
    Listed(
        r"holdfast\.store the counters cannot be folded, .*: "
        r"(cannot be reached|the connection is gone|no answer in time).*",
        "outage",
    ),
    Listed(r"holdfast\.worker \S+: released \d+ jobs whose claim was not answered", "lost answer"),
    Listed(r"holdfast\.worker <Run .*> lost its lease(, probably)?", "lost lease"),
    Listed(
        r"holdfast\.worker a report on job \S+ under token \d+ was refused: stale", "lost lease"
    ),
    # Where it waits for the ledger, longer than it may take to stop.
    Listed(r"holdfast\.worker <Run .*> does not stop; its slot stays occupied .*", "lost lease"),
    Listed(r"holdfast\.maintenance \d+ jobs lost their workers: .* 0 cancelled", "rescue"),
    Listed(r"holdfast\.store \S+ at \S+ is reached through a connection pooler, .*", "pooler"),
    Listed(
        rf"{_RESCUED} failed {_ATTEMPT}: LEASE_LOST: .*; it is queued again",
        "rescue",
    ),
    # All workers of an app were dead for longer than a round of the search.
    Listed(r"holdfast\.maintenance \d+ jobs of the kind \S+ wait, and no live worker .*", "rescue"),
    Listed(rf"{_POISON} failed {_ATTEMPT}: UNKNOWN: .*; next try at \S+", "poison"),
    Listed(rf"{_POISON} is a dead letter {_DEAD}: UNKNOWN: .*\n(?s:.*)", "poison"),
    Listed(rf"{_JOB} \(shop\.fetch\) is a dead letter {_DEAD}: GW_4XX: .*\n(?s:.*)", "poison"),
    Listed(
        rf"{_RESCUED} is a dead letter after {_ATTEMPT} \(lease_lost\): LEASE_LOST: .*",
        "poison",
    ),
    Listed(
        rf"{_JOB} \(shop\.fetch\) failed {_ATTEMPT}: GW_UNAVAILABLE: .* closed the connection; .*",
        "flaky host",
    ),
    Listed(r"holdfast\.worker downstream host:\S+: the breaker is now \S+ \(.*\)", "flaky host"),
    # asyncpg leaves this future behind where a connect times out just when it succeeds, as in a
    # process that was paused for longer than the timeout.
    Listed(
        r"asyncio Future exception was never retrieved\n"
        r"future: <Future .* exception=ConnectionError\('unexpected connection_lost\(\) call'\)>\n"
        r"ConnectionError: unexpected connection_lost\(\) call",
        "driver",
    ),
)
"""Lines of workers and clients: logger and message."""

_STATES = "starting up|shutting down|in recovery mode|not yet accepting connections"
_ENDS = "administrator command|unexpected postmaster exit|crash of another server process"

SERVER = (
    Listed(rf"FATAL:  the database system is ({_STATES})", "server outage"),
    Listed(rf"(FATAL|WARNING):  terminating \S.* (due to|because of) ({_ENDS})", "server outage"),
    # Said to a client that is connecting when the server is shut down, too.
    Listed(r"FATAL:  canceling authentication due to timeout", "server outage"),
    # The client gets no answer either.
    Listed(
        r"WARNING:  canceling the wait for synchronous replication and terminating connection .*",
        "server outage",
    ),
    # It was started again before all processes of the killed one had ended.
    Listed(r"FATAL:  pre-existing shared memory block .* is still in use", "server outage"),
    Listed(r'FATAL:  lock file ".*" already exists', "server outage"),
    Listed(r"WARNING:  could not create listen socket .*", "server outage"),
    Listed(r"FATAL:  could not create any TCP/IP sockets", "server outage"),
    # A worker was killed while it was being answered.
    Listed(r"FATAL:  connection to client lost", "killed client"),
    Listed(
        r"ERROR:  cannot execute .* (in a read-only transaction|during recovery)",
        "before promotion",
    ),
    # A worker that stops or no longer leads abandons the maintenance that is under way.
    Listed(r"ERROR:  canceling statement due to user request", "abandoned statement"),
    # PostgreSQL 18 names the receiver first.
    Listed(r"FATAL:  (.* )?could not connect to the primary server: .*", "replication"),
    Listed(r"FATAL:  could not receive data from WAL stream: .*", "replication"),
    Listed(r"FATAL:  could not send end-of-streaming message to primary: .*", "replication"),
)
"""Lines of PostgreSQL servers: level and message."""

_LOST = (
    # The first where the pooler read from the dead server, the second where it wrote to it.
    r"server conn crashed\?|server connection closed"
    r"|invalid server parameter|pgbouncer cannot connect to server"
    r"|failed to send welcome message"  # to a client that is gone: killed while it logged in
)

POOLER = (
    Listed(r"WARNING C-\S+ \S+ pooler error: server login has been failing, .*", "server outage"),
    Listed(rf"WARNING C-\S+ \S+ pooler error: ({_LOST})", "server outage"),
    Listed(r"WARNING S-\S+ \S+ got packet 'E' from server when not linked", "server outage"),
    Listed(rf"ERROR S: login failed: FATAL: the database system is ({_STATES})", "server outage"),
    Listed(rf"ERROR \S.*: FATAL: terminating connection due to ({_ENDS})", "server outage"),
)
"""Lines of the pooler: level, connection and message."""

_FORMAT = "%(levelname)s %(name)s %(message)s"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_BETWEEN_RECORDS = re.compile(rf"\n(?=(?:{'|'.join(_LEVELS)}) )")
_SERVER_RECORD = re.compile(r"[\d-]+ [\d:.]+ \S+ \[\d+\] (WARNING|ERROR|FATAL|PANIC)(:  .*)")
_POOLER_RECORD = re.compile(r"[\d-]+ [\d:.]+ \S+ \[\d+\] (WARNING|ERROR|FATAL) (.*)")
_NUMBER = re.compile(r"\b(0x)?[0-9a-f]*\d[0-9a-f]*\b")
_SHOWN = 300


class Logs:
    """The logs of one campaign. `causes` counts the listed lines by their cause."""

    def __init__(self) -> None:
        self.causes: Counter[str] = Counter()
        self._unlisted: Counter[str] = Counter()

    def findings(self) -> list[str]:
        """Return each line that is not listed, with its number, most frequent first."""
        return [f"logged {number} times: {line}" for line, number in self._unlisted.most_common()]

    @contextmanager
    def of_this_process(self) -> Iterator[None]:
        """Read what this process logs while the block runs."""
        handler = _Reader(self)
        handler.setFormatter(logging.Formatter(_FORMAT))
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)

    def read_worker(self, text: str) -> None:
        """Read a worker's log; lines that belong to no record are findings too."""
        for record in _BETWEEN_RECORDS.split(text.rstrip("\n")):
            level, _, message = record.partition(" ")
            if level in {"DEBUG", "INFO"}:
                _, _, message = message.partition("\n")
            elif level not in _LEVELS:
                message = record
            if message:
                self._note(WORKER, message)

    def read_server(self, text: str) -> None:
        """Read the log of a PostgreSQL server."""
        for line in text.splitlines():
            if record := _SERVER_RECORD.fullmatch(line):
                self._note(SERVER, record[1] + record[2])

    def read_pooler(self, text: str) -> None:
        """Read the log of a PgBouncer."""
        for line in text.splitlines():
            if record := _POOLER_RECORD.fullmatch(line):
                self._note(POOLER, f"{record[1]} {record[2]}")

    def _note(self, all_listed: Sequence[Listed], message: str) -> None:
        for listed in all_listed:
            if re.fullmatch(listed.pattern, message):
                self.causes[listed.cause] += 1
                return
        self._unlisted[_NUMBER.sub("#", message)[:_SHOWN]] += 1


class _Reader(logging.Handler):
    def __init__(self, logs: Logs) -> None:
        super().__init__(logging.WARNING)
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        self._logs.read_worker(self.format(record))
