"""PostgreSQL for the tests of the stores."""

import pytest
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)

# Before any test imports the facts, as some tests import single ones.
pytest.register_assert_rewrite("holdfast.testing.conformance")
