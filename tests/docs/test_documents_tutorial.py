"""The commands and pictures of the documents tutorial are correct."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.apps.ingestion.document_server import DocumentServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tutorial/documents.md"
COMMANDS = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with DocumentServer(tmp_path_factory.mktemp("documents")) as started:
        yield started


def test_the_commands_do_what_the_page_says(server):
    site = server.site()
    site.html("/otters.html", "Otters", "Otters swim in cold rivers and eat fish.")
    add, search, add_six, add_another = COMMANDS

    run(add, server, site)
    wait_for(server, {"Otters": "done", "Beavers": "done"})
    assert '"title":"Otters"' in run(search, server, site)

    site.default = (503, {}, b"")
    run(add_six, server, site)
    server.until(lambda: "does not answer." in server.client.get("/documents").text)
    run(add_another, server, site)
    wait_for(server, {"Herons": "done"})
    assert len(server.client.get("/v3/documents?status=queued").json()["documents"]) == 6


def run(command, server, site):
    """Run a command of the page against the server and the site of the test."""
    text = command.replace("http://127.0.0.1:8000", server.url)
    text = text.replace("127.0.0.1:8090", f"127.0.0.1:{site.port}")
    done = subprocess.run(
        ["sh", "-ec", text.replace("curl ", "curl --silent --show-error --fail --noproxy '*' ")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for(server, states):
    def look():
        found = server.client.get("/v3/documents").json()["documents"]
        return {each["title"]: each["status"] for each in found}.items() >= states.items()

    server.until(look)
