"""The real gateway in its own process, for every test that asks for one."""

import pytest
from tests.apps.conversion.gateway_process import Running, start
from tests.support.postgres import postgres_server, postgres_template
from tests.support.stores import new_database

__all__ = ["new_database", "postgres_server", "postgres_template"]


@pytest.fixture(scope="session")
def gateway(tmp_path_factory):
    """One shared gateway with short limits; tests must not change its state."""
    limits = {"memory_bytes": 600 << 20, "cpu_seconds": 8, "wall_seconds": 40.0}
    with start({"chaos": False, "children": 2, "stall_seconds": 1.0}, limits) as running:
        yield running


@pytest.fixture
def start_gateway():
    """A function that starts gateways with given settings; they end with the test."""
    started: list[Running] = []

    def begin(settings=None, limits=None, caps=None):
        running = start(settings or {}, limits or {}, caps or {})
        started.append(running)
        return running.__enter__()

    yield begin
    for running in started:
        running.__exit__()
