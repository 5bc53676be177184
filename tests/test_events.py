"""Events and listeners."""

import asyncio
import logging
from dataclasses import FrozenInstanceError

import pytest

from holdfast.errors import Category
from holdfast.events import AttemptFailed, BreakerChanged, CallFinished, Event, notify


def test_every_listener_is_called_in_order():
    told: list[tuple[str, Event]] = []
    event = BreakerChanged("gateway", "CLOSED", "OPEN", "test")
    listeners = [
        lambda event: told.append(("first", event)),
        lambda event: told.append(("second", event)),
    ]
    notify(listeners, event)
    assert told == [("first", event), ("second", event)]


@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError])
def test_a_failing_listener_is_logged_and_the_others_are_still_called(kind, caplog):
    told: list[Event] = []

    def failing(event: Event) -> None:
        raise kind("the listener's own fault")

    event = CallFinished("gateway", True, 1, 0.1, "SUCCESS")
    with caplog.at_level(logging.ERROR, "holdfast.events"):
        notify([failing, told.append], event)
    assert told == [event]
    assert "a listener failed" in caplog.text
    assert "the listener's own fault" in caplog.text


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interruption_in_a_listener_is_not_swallowed(kind):
    def interrupted(event: Event) -> None:
        raise kind

    with pytest.raises(kind):
        notify([interrupted], Event("gateway"))


def test_events_are_frozen_values():
    event = AttemptFailed("gateway", 1, TimeoutError(), Category.TRANSIENT, 0.5, None)
    with pytest.raises(FrozenInstanceError):
        event.number = 2  # type: ignore[misc]
    assert BreakerChanged("a", "OPEN", "CLOSED", "x") == BreakerChanged("a", "OPEN", "CLOSED", "x")
