"""Both stores for the tests of the outbox."""

from tests.support.message_database import database  # noqa: F401 - fixtures are found by name
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)
