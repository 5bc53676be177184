"""What tests of reliable code need: time, chance and a downstream that misbehave on command.

Nothing that is shipped imports this package; it comes along so that users can test with it too.
"""

from __future__ import annotations

from holdfast.testing.downstream import ScriptedDownstream
from holdfast.testing.randomness import seeded_rng
from holdfast.testing.virtual_clock import VirtualClock

__all__ = ["ScriptedDownstream", "VirtualClock", "seeded_rng"]
