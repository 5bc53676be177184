"""The log of the commands: lines for people, or one JSON object per line for machines.

Only commands set this up. A program that embeds an engine configures logging as it likes, and
nothing here is called.
"""

import json
import logging
import re
from datetime import UTC, datetime
from typing import TextIO

FIELDS = ("job_id", "kind", "attempt", "code", "owner")
"""Attributes of a record that are written if it has them, beside time, level, logger, message."""

_SECRETS = (
    (re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+@"), r"\1:***@"),
    (re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]{8,}"), r"\1 ***"),
    (
        re.compile(r"(?i)\b((?:api_?key|(?:\w+_)?token|password|secret)=['\"]?)[^\s&'\"]+"),
        r"\1***",
    ),
)
"""Passwords in addresses, credentials in headers, and secrets in queries and connection strings."""

_QUIET = ("httpx", "httpcore")
"""Libraries that log every request, with its address and all that stands in it."""


def set_up_logging(
    log_format: str = "text", stream: TextIO | None = None, level: int = logging.INFO
) -> bool:
    """Write records from `level` on to standard error, unless logging is configured already.

    Args:
        log_format: `text` or `json`.
        stream: another place to write to.
        level: the least level that is written.

    Returns:
        False if the root logger has handlers, such as those of an app that was imported before:
        then nothing is changed.
    """
    root = logging.getLogger()
    if root.handlers:
        return False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    return True


def redacted(text: str) -> str:
    """Return `text` with `***` in place of what looks like a secret."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class TextFormatter(logging.Formatter):
    """Write time, level, logger and message; then the job's id, unless the message has it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text, without secrets."""
        return redacted(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base's name
        """Return the first line of a record."""
        line = f"{_time(record)} {record.levelname} {record.name} {record.message}"
        job_id = getattr(record, "job_id", None)
        return line if job_id is None or str(job_id) in record.message else f"{line} [job {job_id}]"

    def usesTime(self) -> bool:  # noqa: N802 - the base's name
        """Say that the base need not format the time."""
        return False


class JsonFormatter(logging.Formatter):
    """Write a record as one JSON object on one line; `traceback` is there if the record has one.

    Secrets in messages and tracebacks are replaced. A message whose arguments do not fit is written
    without them.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(_message(record)),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value
        traceback = record.exc_text
        if not traceback and record.exc_info:
            traceback = self.formatException(record.exc_info)
        if traceback:
            line["traceback"] = redacted(traceback)
        return json.dumps(line, default=str)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # of the arguments' own code, too
        return f"{record.msg} (not formatted: its arguments do not fit)"


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
