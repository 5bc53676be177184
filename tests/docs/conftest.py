"""PostgreSQL for the programs of the how-tos."""

from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)
