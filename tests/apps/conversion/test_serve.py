"""`holdfast serve`: one command, several processes, and what happens when they are killed."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.apps.conversion.running import Running, environment
from tests.apps.conversion.service import Service, pdf
from tests.support.postgres import postgres_server, postgres_template, postgres_url  # noqa: F401


def run(*words, **settings):
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
        env={**environment(), **settings},
    )


def children_of(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@contextlib.contextmanager
def own_gateway(port):
    command = [sys.executable, "-m", "holdfast", "gateway", "--port", str(port), "--chaos"]
    with Running(command) as running:
        yield running


@pytest.fixture
def gateway_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# -- starting and stopping -------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything_cleanly(tmp_path, how):
    with Service(tmp_path) as service:
        job_id = service.upload(pdf("before the end")).json()["job"]["id"]
        service.wait(job_id)
        pid = service.process.pid
        everybody = children_of(pid)
        assert everybody

        assert service.stop(how) == 0
        assert not any(is_alive(each) for each in everybody)
        assert "Traceback" not in "\n".join(service.told)


def test_starting_again_finds_the_jobs_and_the_session(tmp_path):
    with Service(tmp_path) as service:
        job_id = service.upload(pdf("kept")).json()["job"]["id"]
        service.wait(job_id)
        cookie = service.client.cookies["holdfast_session"]
        service.stop()
        service.start()
        client = service.browser(cookie=f"holdfast_session={cookie}")

        assert service.job(job_id, client)["status"] == "complete"
        assert client.get(f"/api/jobs/{job_id}/download").status_code == 200


def test_a_second_start_on_the_same_port_says_so_in_one_line(tmp_path):
    with Service(tmp_path) as service:
        port = service.url.rpartition(":")[2]
        again = run("serve", "holdfast_conversion.app:create", PORT=port,
                    HOLDFAST_DATA_DIR=str(tmp_path / "other"))  # fmt: skip

        assert again.returncode == 1
        assert again.stderr.splitlines() == [
            f"holdfast: port {port} is taken: is Holdfast running already? PORT chooses another"
        ]
        assert not (tmp_path / "other").exists()
        assert service.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "settings, line",
    [
        ({"CIRCUIT_MODE": "x"}, "CIRCUIT_MODE must be one of hold, fail_fast, got 'x'"),
        ({"PORT": "x"}, "PORT must be a whole number from 0 to 65535, got 'x'"),
        ({"HOLDFAST_DATABASE_URL": "mysql://x"}, "the database's address has the unknown scheme"),
    ],
)
def test_a_bad_setting_stops_the_start_with_one_line(tmp_path, settings, line):
    data = {"HOLDFAST_DATA_DIR": str(tmp_path), "PORT": "0"}
    done = run("serve", "holdfast_conversion.app:create", **{**data, **settings})

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"holdfast: {line}")


def test_a_setting_that_is_none_is_warned_of(tmp_path):
    with Service(tmp_path, HOLDFAST_DATADIR="x") as service:
        assert any("HOLDFAST_DATADIR is no setting" in line for line in service.told)


def test_an_app_that_is_none_is_named(tmp_path):
    done = run("serve", "nowhere.jobs:app", PORT="0", HOLDFAST_DATA_DIR=str(tmp_path))

    assert done.returncode == 1
    assert "nowhere" in done.stderr
    assert run("serve", "unheard-of", PORT="0").returncode == 1


def test_a_gateway_that_dies_is_started_again(tmp_path):
    with Service(tmp_path, RETRY_BASE_DELAY="4000", RETRY_MAX_DELAY="4000") as service:
        (gateway,) = children_of(service.process.pid)
        os.kill(gateway, signal.SIGKILL)
        job_id = service.upload(pdf("meanwhile")).json()["job"]["id"]

        assert service.wait(job_id)["status"] == "complete"
        assert service.client.get("/readyz").status_code == 200


def test_a_gateway_does_not_outlive_a_service_that_is_killed(tmp_path):
    with Service(tmp_path) as service:
        everybody = children_of(service.process.pid)
        service.kill()
        service.until(lambda: not any(is_alive(each) for each in everybody))


# -- the gateway goes away -------------------------------------------------------------------------


def test_while_the_gateway_is_down_jobs_are_held_and_then_drain_by_themselves(
    tmp_path, gateway_port
):
    settings = {"GATEWAY_URL": f"http://127.0.0.1:{gateway_port}", "WORKER_CONCURRENCY": "5"}
    with Service(tmp_path, **settings) as service:
        ids = [service.upload(pdf(f"waits {n}")).json()["job"]["id"] for n in range(50)]
        service.until(lambda: all(service.job(each)["held"] for each in ids[10:]))
        attempts = {each: service.job(each)["attemptCount"] for each in ids}
        time.sleep(1)
        jobs = [service.job(each) for each in ids]

        assert {job["status"] for job in jobs} == {"queued"}
        assert {job["id"]: job["attemptCount"] for job in jobs} == attempts
        assert sum(attempts.values()) <= 15
        (state,) = service.client.get("/api/downstreams").json()["downstreams"]
        assert (state["name"], state["state"], state["held"]) == ("gateway", "OPEN", True)
        with own_gateway(gateway_port):
            done = [service.wait(each, seconds=60) for each in ids]
        assert {job["status"] for job in done} == {"complete"}
        assert len(service.files("results")) == 50


def test_a_gateway_that_is_too_slow_is_tried_three_times(tmp_path, gateway_port):
    settings = {"GATEWAY_URL": f"http://127.0.0.1:{gateway_port}", "GATEWAY_TIMEOUT": "300"}
    with own_gateway(gateway_port) as gateway, Service(tmp_path, **settings) as service:
        gateway.client.put("/chaos", json={"mode": "slow", "delay": 5})
        job = service.wait(service.upload(pdf("slow")).json()["job"]["id"])

        assert (job["status"], job["error"]["code"]) == ("failed", "GW_TIMEOUT")
        assert (job["attemptCount"], job["isDeadLetter"]) == (3, True)
        gateway.client.delete("/chaos")
        assert service.client.post(f"/api/jobs/{job['id']}/retry").status_code == 200
        assert service.wait(job["id"])["status"] == "complete"


# -- retention -------------------------------------------------------------------------------------


def test_after_their_time_results_are_expired_and_gone(tmp_path):
    with Service(tmp_path, ARTIFACT_TTL_MS="1500") as service:
        job_id = service.upload(pdf("short-lived")).json()["job"]["id"]
        bad = service.upload(b"%PDF-1.4 broken").json()["job"]["id"]
        assert service.wait(job_id)["status"] == "complete"
        service.wait(bad)
        service.until(lambda: service.files("results") + service.files("uploads") == [])

        gone = service.client.get(f"/api/jobs/{job_id}/download")
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "EXPIRED")
        assert service.job(job_id)["canDownload"] is False
        lost = service.client.post(f"/api/jobs/{bad}/retry")
        assert (lost.status_code, lost.json()["error"]["code"]) == (404, "FILE_NOT_FOUND")


# -- killed ----------------------------------------------------------------------------------------


def test_every_upload_that_was_answered_ends_complete_with_one_xml(tmp_path):
    rng = random.Random(7)
    with Service(tmp_path, LEASE_MS="2000", LEASE_EXTEND_MS="500") as service:
        service.client.get("/api/jobs")
        cookie = f"holdfast_session={service.client.cookies['holdfast_session']}"
        answered = []
        for cycle in range(4):
            with contextlib.suppress(Exception):
                upload_until_killed(service, cookie, cycle, answered, rng)
            service.start()
        client = service.browser(cookie=cookie)
        jobs = [service.wait(each, client=client, seconds=60) for each in answered]

        assert len(answered) > 10
        assert {job["status"] for job in jobs} == {"complete"}
        service.until(lambda: one_each(service, client), 20)
        assert set(answered) <= {name.split(".")[0] for name in service.files("results")}
        assert service.files(".drafts") == []


def upload_until_killed(service, cookie, cycle, answered, rng):
    killer = threading.Timer(rng.uniform(0.2, 1.2), service.kill)
    killer.start()

    def upload(number):
        try:
            with httpx.Client(base_url=service.url, trust_env=False, timeout=20) as client:
                answer = client.post(
                    "/api/upload",
                    data={"mapping": "text"},
                    files={"file": ("a.pdf", pdf(f"{cycle} {number}"), "application/pdf")},
                    headers={"cookie": cookie},
                )
            if answer.status_code == 201:
                answered.append(answer.json()["job"]["id"])
        except httpx.HTTPError:
            return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(upload, range(40)))
    killer.join()


def one_each(service, client):
    """Say whether every job that is known is complete and has one XML, and no file is left."""
    jobs, cursor = [], None
    while True:
        params = {"limit": 200, **({"cursor": cursor} if cursor else {})}
        page = client.get("/api/jobs", params=params).json()
        jobs += page["jobs"]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    names = [name.split(".")[0] for name in service.files("results")]
    return sorted(names) == sorted(job["id"] for job in jobs)


# -- the other store -------------------------------------------------------------------------------


def test_the_service_works_on_postgresql_too(tmp_path, postgres_url):  # noqa: F811
    with Service(tmp_path, HOLDFAST_DATABASE_URL=postgres_url) as service:
        answer = service.upload(pdf("elsewhere"))
        assert answer.status_code == 201
        job_id = answer.json()["job"]["id"]

        assert service.wait(job_id)["status"] == "complete"
        assert b"elsewhere" in service.client.get(f"/api/jobs/{job_id}/download").content
        assert service.upload(pdf("elsewhere")).json()["deduplicated"] is True
        refused = service.upload(b"no pdf")
        assert refused.json()["job"]["error"]["code"] == "NOT_PDF"
