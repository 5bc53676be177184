"""Missing migrations, computed from the database's records."""

import pytest

from holdfast.jobs.store_port import StoreUnusable
from holdfast.store.migrations import FUNCTIONS, Migration, Missing, Schema, checksum

FIRST = Migration(1, "baseline", "CREATE TABLE t (x integer);")
SECOND = Migration(2, "colour", "ALTER TABLE t ADD COLUMN colour text;")
SCHEMA = Schema((FIRST, SECOND), "CREATE FUNCTION f() ...;")
COMPLETE = {
    FUNCTIONS: checksum(SCHEMA.functions),
    1: FIRST.checksum,
    2: SECOND.checksum,
}


def test_an_empty_database_lacks_everything():
    assert SCHEMA.missing_from({}) == Missing((FIRST, SECOND), functions=True)


def test_a_complete_one_lacks_nothing():
    assert not SCHEMA.missing_from(COMPLETE)
    SCHEMA.check_usable(COMPLETE)


def test_a_dialect_without_functions_records_none():
    assert not Schema((FIRST,)).missing_from({1: FIRST.checksum})


def test_changed_functions_are_missing():
    assert SCHEMA.missing_from({**COMPLETE, FUNCTIONS: "other"}) == Missing(functions=True)


def test_the_missing_part_is_named():
    missing = SCHEMA.missing_from({1: FIRST.checksum})
    assert str(missing) == "migration 2 (colour), the functions of this release"


def test_missing_migrations_make_a_database_unusable():
    with pytest.raises(StoreUnusable, match=r"has schema version 1.*colour.*run: holdfast migrate"):
        SCHEMA.check_usable({1: FIRST.checksum})


def test_a_changed_migration_is_refused():
    with pytest.raises(StoreUnusable, match=r"migration 1 \(baseline\).*another text"):
        SCHEMA.missing_from({**COMPLETE, 1: "other"})


def test_one_version_ahead_is_accepted_and_left_alone():
    assert not SCHEMA.missing_from({**COMPLETE, FUNCTIONS: "newer", 3: "unknown"})


def test_one_version_ahead_with_a_changed_past_is_refused():
    with pytest.raises(StoreUnusable, match="another text"):
        SCHEMA.missing_from({**COMPLETE, 2: "other", 3: "unknown"})


def test_two_versions_ahead_are_refused_with_both_ways_out():
    with pytest.raises(StoreUnusable, match=r"upgrade Holdfast, or let it use another database"):
        SCHEMA.missing_from({**COMPLETE, 3: "unknown", 4: "unknown"})
