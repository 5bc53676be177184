"""Test helpers: virtual time for calls and for jobs, a scripted downstream, a job's context.

No other shipped package imports this one; it is included for users' tests.
"""

from __future__ import annotations

from holdfast.testing.downstream import ScriptedDownstream
from holdfast.testing.job_context import job_context
from holdfast.testing.randomness import seeded_rng
from holdfast.testing.virtual_clock import VirtualClock
from holdfast.testing.virtual_engine import EngineStuck, virtual_engine

__all__ = [
    "EngineStuck",
    "ScriptedDownstream",
    "VirtualClock",
    "job_context",
    "seeded_rng",
    "virtual_engine",
]
