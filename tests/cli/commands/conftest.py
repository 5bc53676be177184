"""Shared fixtures of the tests of commands."""

import json

import pytest
from tests.support.postgres import postgres_server  # a fixture is found by name
from tests.support.rabbitmq import queue_name, rabbitmq_server

from holdfast.cli import main

__all__ = ["postgres_server", "queue_name", "rabbitmq_server"]


@pytest.fixture
def url(tmp_path, monkeypatch):
    """The address of an embedded store, which is also the one in the settings."""
    address = f"sqlite:///{tmp_path}/work.db"
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", address)
    return address


@pytest.fixture
def empty(url, capsys):
    """The address of a store without jobs."""
    assert main(["migrate"]) == 0
    capsys.readouterr()
    return url


@pytest.fixture
def run(url, capsys):
    """A function that runs a command and returns its exit code, its output and its errors."""

    def call(*words):
        code = main(list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def run_on(capsys):
    """A function that runs a command on the store at a URL, and returns code and output."""

    def call(url, *words):
        code = main([*words, "--database", url])
        printed = capsys.readouterr()
        return code, printed.out.strip(), printed.err.strip()

    return call


@pytest.fixture
def rows(run):
    """A function that runs a command which must succeed, and returns its TSV as dictionaries."""

    def call(*words):
        code, out, _ = run(*words)
        assert code == 0
        header, *lines = [line.split("\t") for line in out.splitlines()]
        return [dict(zip(header, line, strict=True)) for line in lines]

    return call


@pytest.fixture
def data(run):
    """A function that runs a command with --json, which must succeed, and returns the JSON."""

    def call(*words):
        code, out, _ = run(*words, "--json")
        assert code == 0
        return json.loads(out)

    return call
