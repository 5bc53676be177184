"""PostgreSQL for the tests that join a caller's transaction."""

from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)
