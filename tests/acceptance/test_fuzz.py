"""Requests generated from our OpenAPI document: no 5xx, and no undocumented answer.

Schemathesis runs in its own process, deterministically, so that a failure is reproducible.
Set EXAMPLES=1000 in the environment for a longer run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.deployment import GOOD
from tests.apps.conversion.gateway_process import environment
from tests.apps.conversion.service import TOKEN, Service, pdf
from tests.support.cookies import session_cookie
from tests.support.log_records import unexpected_tracebacks

from holdfast.testing.downstream import ScriptedDownstream, status

ROOT = Path(__file__).parents[2]
EXAMPLES = int(os.environ.get("EXAMPLES", "10"))
# A file that is not a PDF, or an invalid cursor, matches the schema and is refused; this check
# would report only that.
LEFT_OUT = "positive_data_acceptance"
STREAMS = "/api/events"
FINISH = "/api/workers/{worker_id}/finish"
"""It ends the only worker of the service, whose jobs the other requests need."""
PAUSE = "/api/intake/pause"
"""After it every upload is refused with 503, as it should be."""


@pytest.fixture(scope="module")
def service(new_database, tmp_path_factory):
    with (
        ScriptedDownstream(GOOD) as gateway,
        Service(tmp_path_factory.mktemp("fuzz"), GATEWAY_URL=gateway.url, **new_database()) as it,
    ):
        it.gateway = gateway
        yield it


@pytest.mark.timeout(300)
@pytest.mark.parametrize("operator", [True, False], ids=["an operator", "anybody"])
def test_no_request_gets_a_5xx_or_an_answer_outside_the_schema(service, tmp_path, operator):
    client = service.browser()
    ids = some_jobs(service, client)
    headers = [f"Cookie: {'='.join(session_cookie(client))}"]
    headers += [f"Authorization: Bearer {TOKEN}"] if operator else []
    # Other callers get the same refusal on most of these routes, so fewer examples are enough.
    examples = EXAMPLES if operator else max(1, EXAMPLES // 3)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/api/openapi.json"),
        *("--generation-deterministic", "--max-examples", str(examples), "--continue-on-failure"),
        *("--checks", "all", "--exclude-checks", LEFT_OUT, "--exclude-path", STREAMS),
        *("--exclude-path", FINISH, "--exclude-path", PAUSE),
        *("--suppress-health-check", "all", "--warnings", "off", "--request-timeout", "30"),
        *("--no-color", *(word for header in headers for word in ("--header", header))),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={
            **environment(),
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.acceptance.fuzz_hooks",
            "FUZZ_JOBS": " ".join(ids),
            "FUZZ_PDF": pdf("fuzzed").hex(),
        },
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "No tests were run" not in done.stdout
    assert unexpected_tracebacks(service.output) == []
    assert service.client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("GET", "/api/jobs?kind=%00", None),
        ("GET", "/api/jobs?cursor=%00", None),
        ("GET", "/api/jobs/%00", None),
        ("GET", "/api/jobs/%00/download", None),
        ("POST", "/api/jobs/a%00b/retry", None),
        ("POST", "/api/jobs/a%00b/retry-now", None),
        ("POST", "/api/jobs/a%00b/cancel", None),
        ("GET", "/api/dead-letters?kind=%00", None),
        ("GET", "/api/dead-letters?id=%00", None),
        ("GET", "/api/dead-letters?errorText=a%00b", None),
        ("GET", "/api/dead-letters?errorGroup=%00", None),
        ("GET", "/api/dead-letters?cursor=%00", None),
        ("DELETE", "/api/dead-letters/%00", None),
        ("POST", "/api/dead-letters/retry", '{"filter": {"errorText": "\\u0000"}}'),
        ("POST", "/api/dead-letters/retry", '{"filter": {"kind": "\\ud800"}}'),
        ("POST", "/api/downstreams/%00/reset", None),
        ("POST", "/api/downstreams/%ff/hold", None),
    ],
)
def test_text_that_no_database_can_store_is_refused(service, method, path, body):
    headers = {"content-type": "application/json"}

    answer = service.admin().request(method, path, content=body, headers=headers)

    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["error"]["message"]


def undo_holds(admin):
    """Release what an operator's fuzz may have held or paused."""
    admin.post("/api/downstreams/gateway/reset")
    for scope in ("queues", "kinds"):
        for each in admin.get(f"/api/{scope}").json()[scope]:
            admin.post(f"/api/{scope}/{each['name']}/resume")


def some_jobs(service, client):
    """Return the ids of a complete, a failed, a refused and a cancelled job."""
    made = {}
    undo_holds(service.admin())
    for name, behaviour in (("complete", GOOD), ("failed", status(400))):
        service.gateway.script(behaviour, path="/convert")
        answer = service.upload(pdf(f"{name} {client.cookies}"), client=client)
        made[name] = answer.json()["job"]["id"]
        assert service.wait(made[name], client=client)["status"] == name
    service.gateway.script(GOOD, path="/convert")
    made["refused"] = service.upload(b"no pdf", client=client).json()["job"]["id"]
    cancelled = service.upload(pdf(f"cancelled {client.cookies}"), client=client)
    made["cancelled"] = cancelled.json()["job"]["id"]
    client.post(f"/api/jobs/{made['cancelled']}/cancel")
    return list(made.values())
