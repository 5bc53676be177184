"""A scripted server, and each store in turn."""

import pytest
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)
from tests.support.stores import database_url, sqlite_url  # noqa: F401 - the same

from holdfast.testing.downstream import ScriptedDownstream


@pytest.fixture
def server():
    """A scripted server on the loopback interface."""
    with ScriptedDownstream() as server:
        yield server
