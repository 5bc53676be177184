"""A server of the app, and its pages parsed."""

import pytest
from tests.apps.ingestion.document_server import DocumentServer
from tests.http.pages.page_reader import Looked

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    with DocumentServer(tmp_path_factory.mktemp("busy")) as started:
        yield started


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    with DocumentServer(tmp_path_factory.mktemp("idle"), working=False) as started:
        yield started


@pytest.fixture
def server(busy):
    """A server with a worker, as an organisation of the test's own sees it."""
    return busy.tenant()


@pytest.fixture
def idle_server(idle):
    """The same without a worker: nothing changes by itself."""
    return idle.tenant()


@pytest.fixture
def look():
    """A function that returns a page."""

    def get(server, path, status=200, client=None):
        return Looked((client or server.client).get(path, headers=HTML), status)

    return get


@pytest.fixture
def submit():
    """A function that sends a form as a browser without scripts does; returns where it leads."""

    def post(server, path, fields=None, files=None, status=303, client=None):
        parts = {name: (None, value) for name, value in (fields or {}).items()}
        options = {"files": {**parts, **(files or {})}} if files or path == "/documents" else {}
        answer = (client or server.client).post(
            path, headers=HTML, data=None if options else fields or {}, **options
        )
        assert answer.status_code == status, answer.text
        return answer.headers["location"] if status == 303 else Looked(answer, status)

    return post
