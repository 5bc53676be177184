"""Shared fixtures of the tests of commands."""

from tests.support.postgres import postgres_server  # a fixture is found by name
from tests.support.rabbitmq import queue_name, rabbitmq_server

__all__ = ["postgres_server", "queue_name", "rabbitmq_server"]
