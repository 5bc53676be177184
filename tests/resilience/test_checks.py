"""Every refusal names the field and the value."""

import math
from decimal import Decimal

import pytest

from holdfast.clock import SYSTEM_CLOCK
from holdfast.resilience import checks
from holdfast.testing import VirtualClock


@pytest.mark.parametrize("value", [0, 0.0, 1, 2.5, 9 * 10**9, 9e9])
def test_a_finite_number_inside_the_bounds_passes(value):
    checks.number("delay", value, at_least=0)


@pytest.mark.parametrize("value", ["1", None, True, False, 1j, Decimal(1), [1]])
def test_a_value_that_is_not_a_number_is_a_type_error(value):
    with pytest.raises(TypeError) as refusal:
        checks.number("delay", value)
    assert "delay must be a number" in str(refusal.value)
    assert repr(value) in str(refusal.value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, -(10**400)])
def test_a_number_that_no_float_can_hold_is_refused(value):
    with pytest.raises(ValueError, match="delay must be finite, got"):
        checks.number("delay", value)


@pytest.mark.parametrize(
    "value,bounds,message",
    [
        (-1, {"at_least": 0}, "share must be at least 0, got -1"),
        (0, {"above": 0}, "share must be above 0, got 0"),
        (1.5, {"at_most": 1}, "share must be at most 1, got 1.5"),
        (9.1e9, {}, "share must be at most 9e+09, got 9100000000.0"),
        (10**300, {}, f"share must be at most 9e+09, got {10**300}"),
        (-0.25, {"at_least": 0.5, "at_most": 1}, "share must be at least 0.5, got -0.25"),
    ],
)
def test_a_number_out_of_bounds_is_refused_with_the_bound(value, bounds, message):
    with pytest.raises(ValueError, match=r"^share must be") as refusal:
        checks.number("share", value, **bounds)
    assert str(refusal.value) == message


def test_bounds_that_include_their_edge_let_it_pass():
    checks.number("share", 0, at_least=0)
    checks.number("share", 1, at_most=1)


@pytest.mark.parametrize("value", [1.0, "3", True, None])
def test_a_whole_number_must_be_an_int(value):
    with pytest.raises(TypeError) as refusal:
        checks.whole("attempts", value, at_least=1)
    assert str(refusal.value) == f"attempts must be a whole number, got {value!r}"


def test_a_whole_number_below_its_bound_is_refused():
    checks.whole("attempts", 1, at_least=1)
    with pytest.raises(ValueError, match=r"^attempts must be at least 1, got 0$"):
        checks.whole("attempts", 0, at_least=1)


def test_a_whole_number_above_its_bound_is_refused():
    checks.whole("attempts", 7, at_least=1, at_most=7)
    with pytest.raises(ValueError, match=r"^attempts must be at most 7, got 8$"):
        checks.whole("attempts", 8, at_least=1, at_most=7)


def test_a_clock_needs_every_method_of_the_protocol():
    clock = VirtualClock()
    assert checks.clock("clock", clock) is clock
    assert checks.clock("clock", SYSTEM_CLOCK) is SYSTEM_CLOCK


def test_a_class_is_not_accepted_as_a_clock():
    with pytest.raises(TypeError) as refusal:
        checks.clock("clock", VirtualClock)
    assert str(refusal.value) == "clock must be a Clock, got the class VirtualClock; make one of it"


@pytest.mark.parametrize("method", ["monotonic", "wall", "sleep", "sleep_async", "call_within"])
def test_what_lacks_a_method_of_a_clock_is_refused_with_its_name(method):
    class Partial(VirtualClock):
        def __repr__(self) -> str:
            return "<partial>"

    setattr(Partial, method, None)
    with pytest.raises(TypeError) as refusal:
        checks.clock("clock", Partial())
    assert str(refusal.value) == f"clock must be a Clock, got <partial>, which has no {method}"


def test_an_unhashable_value_is_refused():
    checks.hashable("key", (1, "a"))
    with pytest.raises(TypeError) as refusal:
        checks.hashable("key", [1])
    assert str(refusal.value) == "key must be hashable, got [1]"
    assert refusal.value.__cause__ is None


def test_an_instance_of_another_type_is_refused():
    checks.instance("mode", "x", str)
    with pytest.raises(TypeError) as refusal:
        checks.instance("mode", 3, str)
    assert str(refusal.value) == "mode must be a str, got 3"


def test_none_passes_only_where_it_is_optional():
    checks.instance("mode", None, str, optional=True)
    with pytest.raises(TypeError, match="mode must be a str, got None"):
        checks.instance("mode", None, str)


def test_a_label_is_a_string_that_is_not_empty():
    checks.label("name", "orders")
    with pytest.raises(TypeError, match="name must be a string, got 7"):
        checks.label("name", 7)
    with pytest.raises(ValueError, match="name must not be empty, got ''"):
        checks.label("name", "")


def test_callables_are_returned_as_a_tuple():
    assert checks.callables("listeners", iter([print, len])) == (print, len)
    assert checks.callables("listeners", ()) == ()


@pytest.mark.parametrize("value", [print, 3, None])
def test_one_callable_in_place_of_several_is_refused(value):
    with pytest.raises(TypeError) as refusal:
        checks.callables("listeners", value)
    assert str(refusal.value) == f"listeners must be a list of callables, got {value!r}"


def test_a_list_with_something_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError) as refusal:
        checks.callables("listeners", [print, "shout"])
    assert str(refusal.value) == "listeners must be callable, got 'shout'"


async def _asynchronous() -> int:
    return 1


def test_a_coroutine_from_a_blocking_operation_is_refused_and_closed():
    coroutine = _asynchronous()
    with pytest.raises(checks.MisusedOperationError, match="operation must be blocking"):
        checks.refuse_coroutine(coroutine)
    with pytest.raises(RuntimeError, match="cannot reuse already awaited"):
        coroutine.send(None)


def test_anything_but_a_coroutine_is_a_value_of_a_blocking_operation():
    for value in (None, 0, [], print):
        checks.refuse_coroutine(value)


def test_an_asynchronous_operation_must_return_an_awaitable():
    coroutine = _asynchronous()
    checks.require_awaitable(coroutine)
    coroutine.close()
    with pytest.raises(TypeError, match="operation must return an awaitable, got 3"):
        checks.require_awaitable(3)


def test_an_object_with_an_asynchronous_call_is_asynchronous_and_its_class_is_not():
    class Sends:
        async def __call__(self): ...

        async def method(self): ...

    assert checks.is_async(Sends())
    assert checks.is_async(Sends().method)
    assert not checks.is_async(Sends)
