"""Shared fixtures of the command line tests."""

from tests.support.postgres import postgres_server  # a fixture is found by name

__all__ = ["postgres_server"]
