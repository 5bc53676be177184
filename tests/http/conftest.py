"""Servers for the HTTP tests."""

import pytest
from tests.http.live_server import Serving
from tests.support.rabbitmq import (  # noqa: F401 - fixtures are found by name
    queue_name,
    rabbitmq_server,
)


@pytest.fixture
def serve(tmp_path):
    """A function that starts servers; they end with the test."""
    started = []

    def begin(**options):
        serving = Serving(tmp_path, **options)
        started.append(serving)
        return serving.__enter__()

    yield begin
    for serving in started:
        serving.__exit__()


@pytest.fixture
def serving(serve):
    return serve()
