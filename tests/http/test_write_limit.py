"""How many writes are allowed."""

from holdfast.http.limit_keys import LimitKeys
from holdfast.http.write_limit import Allowance, WriteLimit
from holdfast.testing import VirtualClock


def test_an_allowance_fills_again_and_never_above_its_size():
    clock = VirtualClock()
    allowance = Allowance(2, 1.0, clock)

    assert [allowance.take("a") for _ in range(3)] == [0, 0, 1.0]
    clock.sleep(0.25)
    assert allowance.take("a") == 0.75
    clock.sleep(100)
    assert [allowance.take("a") for _ in range(3)] == [0, 0, 1.0]
    assert allowance.take("b") == 0


def test_allowances_of_many_keys_do_not_pile_up():
    allowance = Allowance(1, 1.0, VirtualClock())
    for number in range(10_500):
        allowance.take(str(number))

    assert allowance.take("10499") > 0
    assert allowance.take("0") == 0


def test_an_address_may_write_as_much_as_so_many_sessions():
    limit = WriteLimit(2, 1.0, 2, VirtualClock())

    waits = [limit.take(LimitKeys(f"session {number}", "here")) for number in range(5)]
    assert waits == [0, 0, 0, 0, 0.5]
    assert limit.take(LimitKeys("session 9", "elsewhere")) == 0
    assert limit.take(LimitKeys("a key", None)) == 0


def test_a_session_that_is_over_its_limit_costs_its_address_nothing():
    limit = WriteLimit(1, 1.0, 2, VirtualClock())

    assert [limit.take(LimitKeys("one", "here")) for _ in range(3)] == [0, 1.0, 1.0]
    assert limit.take(LimitKeys("two", "here")) == 0
