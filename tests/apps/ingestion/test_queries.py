"""Both databases have the same statements."""

import re

import pytest

from holdfast_ingestion.queries import load_queries

# SQLite hands out the vectors to be compared; PostgreSQL compares them.
COMPARING = {"embeddings_after", "has_pgvector", "nearest", "nearest_without_pgvector"}
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")


def test_both_databases_have_the_same_statements_with_the_same_parameters():
    sqlite, postgres = load_queries("sqlite"), load_queries("postgresql")

    assert sqlite.keys() - COMPARING == postgres.keys() - COMPARING
    for name in sqlite.keys() - COMPARING - {"search"}:  # there the databases rank differently
        assert set(PARAMETER.findall(sqlite[name])) == set(PARAMETER.findall(postgres[name])), name
    assert not any("{{" in sql for sql in (*sqlite.values(), *postgres.values()))


def test_an_unknown_database_has_none():
    with pytest.raises(KeyError):
        load_queries("mysql")
