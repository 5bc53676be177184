"""PostgreSQL for the tests of the stores, and a loud line where there was none."""

from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    missing,
    postgres_server,
    postgres_template,
    postgres_url,
)


def pytest_terminal_summary(terminalreporter):
    for reason in dict.fromkeys(missing):
        terminalreporter.write_line(f"POSTGRESQL TESTS WERE SKIPPED: {reason}", red=True, bold=True)
