"""Limits that cannot be meant are refused."""

import pytest

from holdfast.fetch import FetchLimits


@pytest.mark.parametrize(
    "limit",
    [
        {"max_bytes": 0},
        {"max_seconds": 0},
        {"max_seconds": float("inf")},
        {"connect_seconds": float("nan")},
        {"max_compression_ratio": -1},
        {"max_redirects": -1},
    ],
)
def test_a_limit_that_bounds_nothing_is_refused(limit):
    (name,) = limit
    with pytest.raises(ValueError, match=name):
        FetchLimits(**limit)


def test_the_defaults_are_those_of_the_documentation():
    limits = FetchLimits()

    assert (limits.max_bytes, limits.max_seconds, limits.connect_seconds) == (
        20 * 2**20,
        30.0,
        10.0,
    )
    assert limits.max_redirects == 3
    assert FetchLimits(max_redirects=0).max_redirects == 0


def test_framing_at_most_doubles_what_a_body_may_have():
    assert FetchLimits(max_bytes=2**20).max_framed_bytes == 2 * 2**20 + 256 * 1024
    assert FetchLimits().max_head_bytes == 256 * 1024
