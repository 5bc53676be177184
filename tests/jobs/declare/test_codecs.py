"""The codec of a declared type, jobs without arguments, the payload limit."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from holdfast.errors import ErrorCode
from holdfast.jobs.declare.codecs import (
    PAYLOAD_LIMIT,
    NoArguments,
    arguments_codec,
    check_size,
    result_codec,
)
from holdfast.jobs.declare.validation import PayloadTooLarge, ValidationError


@dataclass
class Order:
    number: int


class Model(pydantic.BaseModel):
    number: int


@pytest.mark.parametrize("value", [Order(1), Model(number=1), {"a": 1}, None, 3])
def test_arguments_of_every_type_are_decoded_as_they_were(value):
    declared = type(value) if isinstance(value, Order | Model) else Any
    codec = arguments_codec(declared, "arguments of a.b")
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("value", [Order(1), Model(number=1)])
def test_results_of_every_type_are_decoded_as_they_were(value):
    codec = result_codec(type(value), "result of a.b")
    assert codec.decode(codec.encode(value)) == value


def test_a_wrong_argument_is_refused_and_a_wrong_result_is_encoded():
    with pytest.raises(ValidationError):
        arguments_codec(Model, "arguments").encode(3)
    assert result_codec(Model, "result").encode(3) == "3"


def test_a_handler_without_arguments_is_given_none():
    codec = NoArguments("arguments of a.b")
    assert codec.encode(None) == "null"
    assert codec.decode("null") is None
    with pytest.raises(ValidationError, match="the handler takes no arguments, got 3"):
        codec.encode(3)


def test_the_limit_counts_bytes_and_not_characters():
    check_size("arguments", "a.b", "é" * 50, 100)
    with pytest.raises(PayloadTooLarge, match="101 bytes of JSON exceed the limit of 100"):
        check_size("arguments", "a.b", "é" * 50 + "x", 100)


def test_the_default_limit_is_256_kib():
    check_size("arguments", "a.b", "x" * 256 * 1024, PAYLOAD_LIMIT)
    with pytest.raises(PayloadTooLarge) as caught:
        check_size("arguments", "a.b", "x" * (256 * 1024 + 1), PAYLOAD_LIMIT)
    assert caught.value.code is ErrorCode.TOO_LARGE


def test_importing_the_jobs_loads_no_driver_of_a_database_and_no_pydantic():
    probe = (
        "import sys, holdfast.jobs.declare.app, holdfast.jobs.engine, holdfast.bootstrap;"
        "print([name for name in ('pydantic', 'apsw', 'asyncpg') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
