"""Fixtures for pytest, found by an entry point.

Outside the package, because pytest loads this in every project where Holdfast is installed:
importing a module of a package imports the package. Nothing of it is loaded before a fixture is
used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast import App
    from holdfast.testing import ScriptedDownstream, VirtualClock
    from holdfast.testing.virtual_engine import BlockingVirtualEngine


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """Return a clock that moves only when code sleeps on it."""
    from holdfast.testing import VirtualClock

    return VirtualClock(io_grace=0.05)


@pytest.fixture
def holdfast_engine(virtual_clock: VirtualClock) -> Iterator[Callable[..., BlockingVirtualEngine]]:
    """Return a function that opens an engine on `virtual_clock`: `engine = holdfast_engine(app)`.

    It takes apps, and the options of `holdfast.testing.virtual_engine`. What it opens is closed
    after the test.
    """
    from holdfast.testing import virtual_engine

    with contextlib.ExitStack() as opened:

        def open_engine(*apps: App, **options: Any) -> BlockingVirtualEngine:
            options.setdefault("clock", virtual_clock)
            return opened.enter_context(virtual_engine(apps, **options).blocking())

        yield open_engine


@pytest.fixture
def scripted_downstream() -> Iterator[ScriptedDownstream]:
    """Start a real HTTP server on this machine that answers as its script says."""
    from holdfast.testing import ScriptedDownstream

    with ScriptedDownstream() as server:
        yield server
