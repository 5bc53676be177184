"""A worker's options: invalid values are refused by name."""

import pytest

from holdfast.children import ChildLimits
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.worker.isolation.child_options import ChildOptions
from holdfast.jobs.worker.options import WorkerOptions


@pytest.mark.parametrize(
    "field, value",
    [
        ("concurrency", 0), ("batch", 0), ("lease_seconds", 0), ("poll_interval", 0),
        ("shutdown_seconds", -1), ("cleanup_seconds", -1), ("extend_every", 151),
        ("queues", ("",)), ("worker_id", ""),
    ],
)  # fmt: skip
def test_a_value_out_of_bounds_is_named(field, value):
    with pytest.raises(ValueError, match=field):
        WorkerOptions(**{field: value})


@pytest.mark.parametrize("field", ["queues", "maintenance", "child"])
def test_a_value_of_the_wrong_type_is_named(field):
    with pytest.raises(TypeError, match=field):
        WorkerOptions(**{field: "default"})


def test_queues_may_be_any_sequence():
    assert WorkerOptions(queues=["a", "b"]).queues == ("a", "b")


def test_the_defaults_are_those_of_the_contract():
    options = WorkerOptions()
    assert (options.lease_seconds, options.extend_every) == (300.0, 30.0)
    assert MaintenanceOptions().deadlines_every == 60.0


@pytest.mark.parametrize(
    "field, value",
    [
        ("memory_bytes", 1024), ("cpu_seconds", 0), ("output_bytes", 0), ("file_bytes", -1),
        ("requests", 0),
    ],
)  # fmt: skip
def test_limits_of_children_are_checked(field, value):
    with pytest.raises(ValueError, match=field):
        ChildLimits(**{field: value})


def test_options_of_children_are_checked():
    with pytest.raises(TypeError, match="by_kind"):
        ChildOptions(by_kind={"a.b": 7})
    with pytest.raises(ValueError, match="start_seconds"):
        ChildOptions(start_seconds=0)
    assert ChildLimits(memory_bytes=None, cpu_seconds=None).memory_bytes is None


@pytest.mark.parametrize("wrong", [None, "on", 1, ["x"]])
def test_tracebacks_are_kept_or_not_or_redacted_by_a_function(wrong):
    with pytest.raises(TypeError, match="tracebacks must be True, False or a function"):
        WorkerOptions(tracebacks=wrong)
    assert WorkerOptions().tracebacks is True
    assert WorkerOptions(tracebacks=str.upper).tracebacks is str.upper
