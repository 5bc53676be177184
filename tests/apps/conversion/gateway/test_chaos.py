"""Faults as data, with a virtual clock."""

import random

import pytest

from holdfast.testing import VirtualClock
from holdfast_conversion.gateway.chaos import Chaos, Fault, Mode, is_local


def test_a_fault_is_over_after_its_time_or_its_requests():
    clock = VirtualClock()
    chaos = Chaos(clock, random.Random(1))
    fault = Fault(Mode.FAIL, seconds=10, requests=2)
    chaos.set(fault)
    assert chaos.strike() is fault
    clock.advance(9.9)
    assert chaos.strike() is fault
    assert chaos.strike() is None
    chaos.set(fault)
    clock.advance(10)
    assert chaos.strike() is None
    assert chaos.describe() == {"mode": None}


def test_requests_that_are_spared_count_too():
    chaos = Chaos(VirtualClock(), random.Random(1))
    chaos.set(Fault(Mode.FAIL, share=0.0, requests=3))
    assert [chaos.strike() for _ in range(3)] == [None, None, None]
    assert chaos.now() is None


@pytest.mark.parametrize(
    "client, host, local",
    [
        ("127.0.0.1", "127.0.0.1:8100", True),
        ("127.9.9.9", "localhost", True),
        ("::1", "[::1]:8100", True),
        ("::1", "[::1]", True),
        ("10.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "rebound.example:8100", False),
        ("testclient", "localhost", False),
        (None, "localhost", False),
    ],
)
def test_only_this_machine_may_ask(client, host, local):
    assert is_local(client, host) is local
