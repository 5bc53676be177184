"""A scripted server, and PostgreSQL."""

import pytest
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)

from holdfast.testing.downstream import ScriptedDownstream


@pytest.fixture
def server():
    """A scripted server on the loopback interface."""
    with ScriptedDownstream() as server:
        yield server
