"""Servers for the tests of the HTTP room."""

import pytest
from tests.http.serving import Serving


@pytest.fixture
def serve(tmp_path):
    """Start servers; they end with the test."""
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
