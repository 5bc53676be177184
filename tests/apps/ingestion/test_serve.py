"""`holdfast serve` with ingestion beside conversion, as `make run` starts it."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from tests.apps.conversion.service import Service

APPS = ("holdfast_ingestion.app:create",)


def sse_messages(response):
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Service(tmp_path_factory.mktemp("serve"), *APPS, FETCH_ALLOW_PRIVATE="1") as running:
        yield running


def test_the_seeds_request_works_without_a_cookie_on_this_machine(service):
    # A new client each time has no cookie: this machine is one organisation.
    body = {"content": "A document about lighthouses.", "type": "text"}
    document_id = httpx.post(f"{service.url}/v3/documents", json=body, trust_env=False).json()["id"]

    def shown():
        answer = httpx.get(f"{service.url}/v3/documents/{document_id}", trust_env=False).json()
        return answer["status"] == "done" and answer

    assert service.until(shown)["state"] == "completed"
    found = httpx.get(f"{service.url}/v3/search?q=lighthouse", trust_env=False).json()
    assert [hit["documentId"] for hit in found["hits"]] == [document_id]


def test_both_apps_are_served(service):
    assert service.client.get("/").status_code == 200
    paths = service.client.get("/api/openapi.json").json()["paths"]
    assert {"/api/upload", "/v3/documents", "/v3/search"} <= set(paths)


def test_changes_of_a_document_are_live_events(service):
    with service.client.stream("GET", "/api/events") as stream:
        messages = sse_messages(stream)
        next(messages)
        body = {"content": "A document about harbours."}
        document_id = service.client.post("/v3/documents", json=body).json()["id"]
        for message in messages:
            if message.get("jobId") == f"doc-{document_id}" and message["event"] == "complete":
                assert message["job"]["documentId"] == document_id
                break


def test_private_addresses_are_allowed_with_a_warning_at_the_start(service):
    assert any("FETCH_ALLOW_PRIVATE=1" in line and "development" in line for line in service.output)


class SlowSite(BaseHTTPRequestHandler):
    """Answers each path with a text of its own, a little later."""

    def do_GET(self):
        time.sleep(0.05)
        body = f"This is the text of {self.path}. It has two sentences.".encode()
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Keep quiet."""


@pytest.fixture
def slow_site():
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowSite) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_service_that_is_killed_finishes_every_document_once(tmp_path, slow_site):
    with Service(tmp_path, *APPS, FETCH_ALLOW_PRIVATE="1") as service:
        documents = [{"url": f"{slow_site}/{number}"} for number in range(20)]
        answer = service.client.post("/v3/documents/batch", json={"documents": documents})
        ids = [each["id"] for each in answer.json()["documents"]]

        def listed():
            found = service.client.get("/v3/documents?limit=200").json()["documents"]
            return {each["id"]: (each["status"], each["chunks"]) for each in found}

        service.until(lambda: sum(status == "done" for status, _ in listed().values()) >= 5)
        service.kill()
        service.start()
        finished = dict.fromkeys(ids, ("done", 1))
        service.until(lambda: listed() == finished)
        for number in range(20):
            hits = service.client.get(f"/v3/search?q=text+of+{number}").json()["hits"]
            assert [hit["url"] for hit in hits[:1]] == [f"{slow_site}/{number}"]
