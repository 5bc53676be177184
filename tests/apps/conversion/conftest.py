"""The real gateway in its own process, for every test that asks for one."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Find the app even if it is not installed.
sys.path[:0] = [str(ROOT / "apps" / "conversion" / "src")]

from tests.apps.conversion.gateway_process import Running, start  # noqa: E402
from tests.support.postgres import postgres_server, postgres_template  # noqa: E402, F401
from tests.support.stores import new_database  # noqa: E402, F401


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
