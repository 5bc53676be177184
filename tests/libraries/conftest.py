"""A port that refuses connections."""

import socket

import pytest


@pytest.fixture
def closed_port() -> int:
    """Return a port that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
