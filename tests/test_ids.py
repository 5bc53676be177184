"""Generated ids."""

from uuid import RFC_4122, UUID

from holdfast.ids import new_ids

NOW = 1_700_000_000.0


def test_new_ids_differ_and_grow_with_time():
    earlier, later = new_ids(500, NOW), new_ids(500, NOW + 0.001)
    assert len(set(earlier + later)) == 1000
    assert max(earlier) < min(later)
    assert new_ids(0, NOW) == []


def test_they_are_version_7_uuids_in_hex():
    for one in new_ids(200, NOW):
        parsed = UUID(hex=one)
        assert parsed.hex == one
        assert (parsed.version, parsed.variant) == (7, RFC_4122)
        assert parsed.int >> 80 == NOW * 1000


def test_all_74_bits_that_are_neither_time_nor_version_vary_within_one_call():
    values = [UUID(hex=one).int for one in new_ids(200, NOW)]
    varying = 0
    for value in values:
        varying |= value ^ values[0]
    assert varying.bit_count() == 74
