"""The log of the commands: text for people, JSON for machines; no other set-up is touched."""

import io
import json
import logging
import sys
from contextlib import contextmanager

import pytest

from holdfast.telemetry.logging import JsonFormatter, TextFormatter, set_up_logging


def record(message="sent %d", args=(3,), level=logging.WARNING, **fields):
    made = logging.LogRecord("holdfast.worker", level, "x.py", 1, message, args, None)
    made.created = 1_800_000_000.0625
    vars(made).update(fields)
    return made


def error():
    try:
        raise ValueError("no")
    except ValueError:
        return sys.exc_info()


@contextmanager
def unconfigured():
    """Take pytest's handlers off the root logger while the block runs."""
    root = logging.getLogger()
    loggers = (root, *map(logging.getLogger, ("httpx", "httpcore")))
    handlers, levels = root.handlers, [logger.level for logger in loggers]
    root.handlers = []
    try:
        yield root
    finally:
        root.handlers = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def test_a_line_has_time_level_logger_message_and_the_jobs_id():
    line = TextFormatter().format(record(job_id="j7"))
    assert line == "2027-01-15T08:00:00.062Z WARNING holdfast.worker sent 3 [job j7]"


def test_an_id_that_the_message_has_is_not_repeated():
    line = TextFormatter().format(record("job %s failed", ("j7",), job_id="j7"))
    assert line.endswith(" job j7 failed")
    assert TextFormatter().format(record()).endswith(" sent 3")


@pytest.mark.parametrize("fields", [{"exc_info": error()}, {"exc_text": "ValueError: no"}])
def test_a_traceback_follows_the_line(fields):
    assert TextFormatter().format(record(**fields)).endswith("ValueError: no")


def test_json_has_the_fields_of_the_job_and_nothing_else():
    given = record(
        job_id="j7", kind="a.b", attempt=2, code="GW_5XX", owner="ann", arguments={"card": "4242"}
    )
    assert json.loads(JsonFormatter().format(given)) == {
        "time": "2027-01-15T08:00:00.062Z", "level": "WARNING", "logger": "holdfast.worker",
        "message": "sent 3", "job_id": "j7", "kind": "a.b", "attempt": 2, "code": "GW_5XX",
        "owner": "ann",
    }  # fmt: skip
    assert set(json.loads(JsonFormatter().format(record()))) == {
        "time", "level", "logger", "message",
    }  # fmt: skip


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
@pytest.mark.parametrize(
    "text, shown",
    [
        ("cannot reach amqp://guest:hunter22@mq:5672/", "amqp://guest:***@mq:5672/"),
        ("redis://:hunter22@cache", "redis://:***@cache"),
        ("Authorization: Bearer hunter22.abc-_=", "Authorization: Bearer ***"),
        ("GET /x?api_key=hunter22&page=2", "GET /x?api_key=***&page=2"),
        ("host=db password=hunter22 dbname=x", "host=db password=*** dbname=x"),
        ("access_token='hunter22'", "access_token='***'"),
        ("at http://host:8000/a@b and 12:30", "at http://host:8000/a@b and 12:30"),
    ],
)
def test_what_looks_like_a_secret_is_not_written(formatter, text, shown):
    for given in (record("%s", (text,)), record(exc_text=f"ValueError: {text}")):
        line = formatter.format(given)
        assert shown in line
        assert "hunter22" not in line


@pytest.mark.parametrize("fields", [{"exc_info": error()}, {"exc_text": "kept\nValueError: no"}])
def test_json_has_the_traceback_on_the_same_line(fields):
    text = JsonFormatter().format(record("two\nlines \ud800", (), **fields))
    assert "\n" not in text
    line = json.loads(text)
    assert line["message"] == "two\nlines \ud800"
    assert line["traceback"].endswith("\nValueError: no")


@pytest.mark.parametrize("log_format, first", [("text", "2"), ("json", "{")])
def test_the_log_goes_to_the_stream_from_info_on(log_format, first):
    stream = io.StringIO()
    with unconfigured():
        assert set_up_logging(log_format, stream)
        logging.getLogger("holdfast.some").info("here")
        logging.getLogger("holdfast.some").debug("not here")
        logging.getLogger("httpx").info("GET https://example.org/?token=secret")
    text = stream.getvalue()
    assert text.startswith(first)
    assert text.count("\n") == 1
    assert "here" in text


def test_logging_that_is_configured_already_is_left_alone():
    with unconfigured() as root:
        own = logging.StreamHandler(io.StringIO())
        root.addHandler(own)
        before = root.level
        assert not set_up_logging("json", io.StringIO())
        assert (root.handlers, root.level) == ([own], before)


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize("args", [("three",), (1, 2), (Unprintable(),)])
def test_json_has_the_raw_message_where_its_arguments_do_not_fit(args):
    line = json.loads(JsonFormatter().format(record("sent %d", args, job_id="j7")))
    assert line["message"] == "sent %d (not formatted: its arguments do not fit)"
    assert (line["level"], line["job_id"]) == ("WARNING", "j7")
