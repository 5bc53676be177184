"""Databases are named only in the stores and where a store is chosen."""

import re

HOMES = ("store/", "providers/", "bootstrap.py", "cli/")  # providers take users' own databases
CONFORMANCE = ("testing/",)  # runs every store, so it may name them
OWN_SQL = ("jobs/database_port.py", "jobs/declare/app_tables.py")  # apps write SQL for each
WORDS = re.compile(r"sqlite|postgres", re.IGNORECASE)


def test_the_words_sqlite_and_postgres_occur_only_where_a_store_is_chosen(root, shipped):
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in shipped
        if not path.startswith(HOMES + CONFORMANCE + OWN_SQL)
        for number, line in enumerate(
            (root / "src" / "holdfast" / path).read_text("utf-8").splitlines(), start=1
        )
        if WORDS.search(line)
    ]
    assert found == []
