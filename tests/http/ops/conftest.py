"""A dashboard over an app in every state."""

import pytest
from tests.http.live_server import READER, Serving
from tests.http.ops.busy_shop import busy_app, fill
from tests.http.pages.page_reader import Looked


class Dashboard:
    """A running server with a filled store; `client` is logged in, with the full role."""

    def __init__(self, serving):
        self.serving = serving
        self.engine = serving.engine
        self.ids = serving.run(fill(serving.engine, dead=3))
        self.client = serving.browser(accept="text/html")
        self.client.get(serving.state.admin.new_link())

    def run(self, coroutine):
        return self.serving.run(coroutine)

    def look(self, path, status=200):
        """Return a page as parsed."""
        return Looked(self.client.get(f"/ops{path}"), status)

    def post(self, path, **fields):
        """Send a form; return where it leads, without the dashboard's own path."""
        answer = self.client.post(f"/ops{path}", data=fields)
        assert answer.status_code == 303, (answer.status_code, answer.text[:500])
        return answer.headers["location"].removeprefix("/ops")

    def ask(self, path, **fields):
        """Send a form that is answered with a question."""
        return Looked(self.client.post(f"/ops{path}", data=fields))


@pytest.fixture
def dashboard(tmp_path):
    """One dashboard for one test, which may change what it shows."""
    with Serving(tmp_path, busy_app()) as serving:
        yield Dashboard(serving)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """One dashboard for the tests of a file that only look.

    Not for those of other files, which may come much later: what it shows depends on the time.
    """
    with Serving(tmp_path_factory.mktemp("ops"), busy_app(), reader_token=READER) as serving:
        yield Dashboard(serving)
