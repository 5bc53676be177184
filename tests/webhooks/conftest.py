"""Each store in turn."""

import pytest
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)
from tests.support.stores import database_url, sqlite_url  # noqa: F401 - the same


@pytest.fixture
def either_url(database_url):  # noqa: F811 - the fixture above
    """The address of an empty store."""
    return database_url
