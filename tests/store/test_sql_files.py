"""Named queries are loaded from their files."""

import re
import sys
from pathlib import Path

import pytest

from holdfast import store
from holdfast.store.sql_files import load_queries, sql_files


@pytest.fixture
def package(tmp_path, monkeypatch):
    home = tmp_path / "queries_for_a_test"
    (home / "sql").mkdir(parents=True)
    (home / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield home
    sys.modules.pop("queries_for_a_test", None)


def load():
    return load_queries("queries_for_a_test")


def test_each_block_is_a_query_without_its_semicolon(package):
    text = "-- head\n-- name: one\nSELECT 1;\n\n-- name: two\nSELECT\n2;\n"
    (package / "sql" / "a.sql").write_text(text)
    assert load() == {"one": "SELECT 1", "two": "SELECT\n2"}


def test_comments_at_the_end_of_a_block_belong_to_the_next(package):
    first = "-- name: one\n-- why\nSELECT 1;\n\n-- of two,\n-- in two lines\n"
    (package / "sql" / "a.sql").write_text(f"{first}-- name: two\nSELECT 2;\n")
    assert load() == {"one": "-- why\nSELECT 1", "two": "SELECT 2"}


def test_files_come_by_name_and_others_are_left_alone(package):
    for name in ("b.sql", "a.sql", "notes.txt"):
        (package / "sql" / name).write_text(f"-- name: {name[0]}\nSELECT 1\n")
    assert [file.name for file in sql_files("queries_for_a_test", "sql")] == ["a.sql", "b.sql"]
    assert list(load()) == ["a", "b"]


def test_fragments_are_included_across_files(package):
    (package / "sql" / "a.sql").write_text("-- name: one\nSELECT {{columns}} FROM t\n")
    (package / "sql" / "b.sql").write_text("-- fragment: columns\na, b\n")
    assert load() == {"one": "SELECT a, b FROM t"}


def test_a_name_that_is_there_twice_is_refused(package):
    (package / "sql" / "a.sql").write_text("-- name: one\nSELECT 1\n-- name: one\nSELECT 2\n")
    with pytest.raises(ValueError, match="'one' is there twice"):
        load()


def test_a_fragment_that_is_missing_is_refused(package):
    (package / "sql" / "a.sql").write_text("-- name: one\nSELECT {{nothing}}\n")
    with pytest.raises(ValueError, match="no such fragment: 'nothing'"):
        load()


def test_the_queries_cannot_be_changed(package):
    (package / "sql" / "a.sql").write_text("-- name: one\nSELECT 1\n")
    with pytest.raises(TypeError):
        load()["one"] = "SELECT 2"  # type: ignore[index]


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_every_query_is_used(dialect):
    folder = Path(store.__path__[0])
    code = "".join(file.read_text() for file in sorted(folder.rglob("*.py")))
    beginnings = tuple(re.findall(r'f"(\w+_)\{', code))
    queries = load_queries(f"holdfast.store.{dialect}")
    unused = [
        name for name in queries if f'"{name}"' not in code and not name.startswith(beginnings)
    ]
    assert unused == []
