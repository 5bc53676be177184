"""A scripted language model."""

import pytest

from holdfast.testing.downstream import ScriptedDownstream


@pytest.fixture
def chatmock():
    """A scripted server that speaks as OpenAI's does."""
    with ScriptedDownstream() as server:
        yield server
