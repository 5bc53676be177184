import asyncio
import errno
import functools
import gc
import subprocess
import weakref
from pathlib import Path

import msgspec
import pydantic
import pytest
from tests.support.errors import PERMANENT, TRANSIENT, foreign, look, raised, told, wrapped

from holdfast.resilience.categorize import categorize
from holdfast.resilience.known_errors import by_type, by_words

# --- Python's own errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        *(TypeError, AttributeError, NameError, UnboundLocalError, ImportError, SyntaxError),
        *(ModuleNotFoundError, NotImplementedError, RecursionError, AssertionError),
        *(KeyError, IndexError, LookupError, ArithmeticError, ZeroDivisionError, OverflowError),
    ],
)
def test_a_bug_of_the_caller_is_permanent(kind):
    assert told(kind("timeout")) == (PERMANENT, "UNKNOWN")
    assert look(kind("timeout")).counts is False


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, Exception])
def test_a_general_error_is_transient_by_default(kind):
    assert look(kind("boom")).known is False
    assert categorize(kind("boom")) is TRANSIENT


def test_lack_of_memory_is_permanent():
    assert told(MemoryError()) == (PERMANENT, "MEMORY_ERROR")


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1), GeneratorExit()]
)
def test_an_interruption_is_never_retried(error):
    assert told(error) == (PERMANENT, "CANCELLED")
    assert look(error).counts is False


def test_a_timeout_made_of_a_cancellation_is_a_timeout():
    async def slow() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    error = raised(functools.partial(asyncio.run, slow()))
    assert isinstance(error.__cause__, asyncio.CancelledError)
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")
    assert look(error).ambiguous


def test_a_cancellation_as_a_cause_gives_no_diagnosis():
    assert look(wrapped(asyncio.CancelledError())).known is False


def test_a_child_that_took_too_long_is_a_timeout():
    error = raised(lambda: subprocess.run(["sleep", "5"], timeout=0.01, check=True))
    assert told(error) == (TRANSIENT, "GW_TIMEOUT")


# --- validation ----------------------------------------------------------------------------------


class _Model(pydantic.BaseModel):
    age: int


class _Record(msgspec.Struct):
    age: int


@pytest.mark.parametrize(
    "error",
    [
        raised(lambda: _Model.model_validate({"age": "connection timeout"})),
        raised(lambda: msgspec.json.decode(b'{"age": "x"}', type=_Record)),
        foreign("jsonschema", "_Error", "ValidationError")("timeout"),
        foreign("myapp", "ValidationError", "AgeError", base=ValueError)("timeout"),
    ],
    ids=lambda error: type(error).__module__,
)
def test_data_that_fails_validation_is_permanent(error):
    assert told(error) == (PERMANENT, "VALIDATION_ERROR")


# --- files ---------------------------------------------------------------------------------------


def test_a_missing_file_and_a_directory_in_its_place_are_permanent(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    for error in (
        raised((tmp_path / "none").read_text),
        raised(tmp_path.read_text),
        raised((tmp_path / "file" / "below").read_text),
        raised((tmp_path / "file").mkdir),
    ):
        assert told(error) == (PERMANENT, "IO_ERROR")


def test_a_full_device_is_permanent_though_other_storage_faults_pass():
    def fill() -> None:
        with open("/dev/full", "wb", buffering=0) as device:  # noqa: PTH123 - no path, a device
            device.write(b"x")

    error = raised(fill)
    assert (error.errno, told(error)) == (errno.ENOSPC, (PERMANENT, "IO_ERROR"))
    assert told(OSError(errno.EIO, "I/O error")) == (TRANSIENT, "IO_ERROR")


# --- the memory of types -----------------------------------------------------------------------


def test_a_type_is_judged_once():
    kind = foreign("myapp", "Unheard")
    assert by_type(kind) is None
    kind.__module__ = "httpx"
    kind.__name__ = "ReadTimeout"
    assert by_type(kind) is None


def test_types_made_at_run_time_are_not_kept_for_ever():
    made = [type(f"Made{number}", (Exception,), {}) for number in range(3000)]
    for kind in made:
        look(kind("boom"))
    watched = weakref.ref(made[0])
    del made, kind
    gc.collect()
    assert watched() is None


def test_no_error_is_kept():
    error = foreign("myapp", "Unheard")("a message of its own")
    look(error)
    watched = weakref.ref(error)
    del error
    gc.collect()
    assert watched() is None


# --- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code", "ambiguous"),
    [
        ("http 502", "GW_5XX", True),
        ("http/1.1 429 too many requests", "RATE_LIMITED", False),
        ("status: 404", "GW_4XX", False),
        ("error code: 500", "GW_5XX", False),
        ("server answered 503 service unavailable", "GW_5XX", False),
        ("(504)", "GW_5XX", True),
        ("408: request took too long", "GW_TIMEOUT", True),
        ("connection refused by 10.0.0.1", "GW_UNAVAILABLE", False),
        ("connection reset by peer", "GW_UNAVAILABLE", True),
        ("the read timed out", "GW_TIMEOUT", True),
        ("the model is overloaded", "GW_5XX", False),
        ("request was throttled", "RATE_LIMITED", False),
        ("database is locked", "GW_5XX", False),
    ],
)
def test_a_message_gives_a_code_and_never_a_status(message, code, ambiguous):
    found = by_words(message)
    assert found is not None
    assert (found.code.value, found.ambiguous, found.status) == (code, ambiguous, None)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "404 rows were left over",
        "page 503 of 600",
        "5000",
        "got 4044 bytes",
        "in 429 ms",
        "1.503",
    ],
)
def test_a_number_that_is_not_a_status_gives_no_diagnosis(message):
    assert by_words(message) is None
