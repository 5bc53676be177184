"""One user with files that take long to read does not keep the others waiting."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.apps.conversion.hostile_pdfs import endless_pages
from tests.apps.conversion.service import Service, pdf

OTHERS = 9
SLOW_FILES = 10
LEAST_SECONDS = 1.0
"""A shorter time on the idle service says more of the machine than of the service."""


@pytest.fixture
def service(tmp_path):
    """A service whose breaker opens at the first failure that counts against the gateway."""
    settings = {"CIRCUIT_THRESHOLD": "1", "GATEWAY_FILE_CPU_MS": "2000"}
    with Service(tmp_path, **settings) as running:
        yield running


@contextlib.contextmanager
def visitors(service, addresses, *, visit):
    """Yield a client for each loopback address; with `visit` they have a session by the page."""
    with contextlib.ExitStack() as clients:
        found = []
        for address in addresses:
            transport = httpx.HTTPTransport(local_address=address, verify=False)
            client = httpx.Client(base_url=service.url, transport=transport, timeout=60)
            found.append(clients.enter_context(client))
            if visit:
                assert client.get("/").status_code == 200
        yield found


def upload_slow_files(service, clients):
    """Upload a file that takes long from each of `clients`; return each with its job's id."""
    sent, slow = [], endless_pages()
    for number, client in enumerate(clients):
        answer = service.upload(slow + b"%%%d" % number, "layout", client=client)
        assert answer.status_code == 201, answer.text
        sent.append((client, answer.json()["job"]["id"]))
    return sent


def slowest(service, clients, words):
    """Convert a small file for each of `clients`, at once; return the longest time in seconds."""

    def convert(client, number):
        begin = time.monotonic()
        job = service.upload(pdf(f"{words} {number}"), client=client).json()["job"]
        job = service.wait(job["id"], client=client)
        assert job["status"] == "complete", job
        return time.monotonic() - begin

    with ThreadPoolExecutor(len(clients)) as threads:
        return max(threads.map(convert, clients, range(len(clients))))


def statuses(service, sent):
    return [service.job(job_id, client)["status"] for client, job_id in sent]


def check_others_are_served(service, attackers, others):
    """Convert for `others` on the idle service, and again while the slow files wait and run.

    The better of two rounds counts: another process of the machine may delay one, where a slow file
    that keeps the others waiting would delay both by many times as much.
    """
    slowest(service, others, "warm")
    idle = slowest(service, others, "idle")
    sent = upload_slow_files(service, attackers)
    service.until(lambda: statuses(service, sent).count("processing") >= 2)
    attacked = min(slowest(service, others, f"attacked {number}") for number in range(2))
    assert statuses(service, sent).count("queued") > 0
    assert attacked < 3 * max(idle, LEAST_SECONDS), (idle, attacked)
    return sent


def check_a_slow_file_fails_as_such(service, sent):
    """Cancel all but one, which is not retried, and counts nothing against the gateway."""
    for client, job_id in sent[1:]:
        client.post(f"/api/jobs/{job_id}/cancel")
    client, job_id = sent[0]
    job = service.wait(job_id, client=client)
    assert (job["status"], job["error"]["code"], job["attemptCount"]) == ("failed", "GW_4XX", 1)
    assert "time allowed for one file" in job["error"]["message"]
    (gateway,) = service.admin().get("/api/downstreams").json()["downstreams"]
    assert gateway["state"] == "CLOSED"


def test_one_session_with_slow_files_leaves_children_to_the_other_sessions_of_its_address(service):
    with (
        visitors(service, ["127.0.0.1"], visit=False) as (attacker,),
        visitors(service, ["127.0.0.1"] * OTHERS, visit=False) as others,
    ):
        sent = check_others_are_served(service, [attacker] * SLOW_FILES, others)
        check_a_slow_file_fails_as_such(service, sent)


def test_sessions_without_a_cookie_share_the_places_of_their_address(service):
    elsewhere = [f"127.0.0.{number}" for number in range(2, 7)]
    with (
        visitors(service, ["127.0.0.1"] * SLOW_FILES, visit=False) as attackers,
        visitors(service, ["127.0.0.1"] * (OTHERS - len(elsewhere)), visit=True) as visiting,
        visitors(service, elsewhere, visit=False) as others,
    ):
        sent = check_others_are_served(service, attackers, [*visiting, *others])
        check_a_slow_file_fails_as_such(service, sent)
