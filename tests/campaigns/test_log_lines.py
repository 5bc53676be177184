"""Lines at WARNING or above are findings unless they are listed."""

import logging

import pytest
from campaigns.log_lines import Logs

STALE = "WARNING holdfast.worker a report on job c1-7 under token 2 was refused: stale"
POISON = (
    "ERROR holdfast.worker job c1-7 (mail.unreadable) is a dead letter after attempt 3 of 3 "
    "(attempts_exhausted): UNKNOWN: ValueError: no"
)
RETRIED = (
    "WARNING holdfast.worker job c1-8 (mail.unreadable) failed attempt 1 of 3: UNKNOWN: "
    "ValueError: no; next try at 2026-01-02T03:04:05Z"
)
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no'
SERVER = "2026-01-02 03:04:05.678 UTC [42] "
POOLED = "WARNING C-0x1: d/u@127.0.0.1:1 pooler error"


def findings(read, text):
    logs = Logs()
    getattr(logs, f"read_{read}")(text)
    return logs.findings()


@pytest.mark.parametrize(
    "read, text",
    [
        ("worker", f"INFO holdfast.worker started\n{STALE}"),
        ("worker", f"{RETRIED}\n{POISON}\n{TRACEBACK}\n{STALE}\n"),
        ("worker", ""),
        ("server", f"{SERVER}LOG:  starting\n{SERVER}FATAL:  the database system is starting up"),
        ("pooler", f"{SERVER}ERROR S: login failed: FATAL: the database system is shutting down"),
        (
            "pooler",
            f"{SERVER}{POOLED}: server connection closed",
        ),
    ],
)
def test_listed_lines_are_no_findings(read, text):
    assert findings(read, text) == []


@pytest.mark.parametrize(
    "read, text",
    [
        ("worker", "ERROR asyncio Task exception was never retrieved"),
        ("worker", RETRIED.replace("mail.unreadable", "mail.send")),
        ("worker", "WARNING holdfast.worker a report on job c1-7 under token 2 was refused: late"),
        ("worker", "INFO holdfast.worker started\nException in thread heartbeat:"),
        ("worker", f"{STALE}\nException in thread heartbeat:"),
        ("server", f"{SERVER}ERROR:  deadlock detected"),
        ("server", f"{SERVER}PANIC:  could not write to file"),
        ("pooler", f"{SERVER}{POOLED}: query_wait_timeout"),
    ],
)
def test_other_lines_are_findings(read, text):
    assert len(findings(read, text)) == 1


def test_lines_that_differ_in_numbers_are_one_finding():
    logs = Logs()
    for job in range(3):
        logs.read_worker(f"ERROR holdfast.worker job {job} is lost")
    assert logs.findings() == ["logged 3 times: holdfast.worker job # is lost"]


def test_lines_of_this_process_are_read_and_listed_ones_counted_by_cause():
    logs = Logs()
    with logs.of_this_process():
        logging.getLogger("holdfast.worker").warning("w1: the store answers again after 0.5 s")
        logging.getLogger("holdfast.store").error("the table is gone")
    logging.getLogger("holdfast.store").error("the view is gone")
    assert logs.findings() == ["logged 1 times: holdfast.store the table is gone"]
    assert logs.causes == {"outage": 1}
