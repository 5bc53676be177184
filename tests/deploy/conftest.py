"""Prometheus, from Debian's package."""

import pytest
from tests.support.programs import find


@pytest.fixture(scope="session")
def promtool():
    return find("promtool", "prometheus")
