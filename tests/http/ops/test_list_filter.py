"""Filters in an address."""

from holdfast.http.ops.list_filter import ListFilter
from holdfast.jobs.model import JobStatus


def test_an_address_keeps_the_filters_and_not_what_means_nothing():
    search = ListFilter.of(
        {"status": "failed", "kind": " a.b ", "since": "1h", "cursor": "c", "odd": "1", "id": "\0"}
    )
    assert search.given() == {"status": "failed", "kind": "a.b", "since": "1h"}
    assert search.path("/jobs") == "/jobs?status=failed&kind=a.b&since=1h"
    assert search.path("/jobs", cursor="d").endswith("&cursor=d")
    where = search.as_filter(now=10_000.0)
    assert (where.statuses, where.kinds) == ((JobStatus.FAILED,), ("a.b",))
    assert (where.created_from, where.id) == (6_400.0, None)
    assert ListFilter().path("/jobs") == "/jobs"
