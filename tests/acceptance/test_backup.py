"""The drill: a backup of the running service under load, restored elsewhere, runs on."""

import subprocess
import sys
import threading

from tests.acceptance.deployment import GOOD, XML
from tests.apps.conversion.gateway_process import environment
from tests.apps.conversion.service import Service, pdf
from tests.support.cookies import session_cookie

from holdfast.testing.downstream import ScriptedDownstream, hang

UPLOADS = 30


def holdfast(folder, *words):
    """Run a command on the data folder below `folder`; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        capture_output=True,
        text=True,
        env={**environment(), "HOLDFAST_DATA_DIR": str(folder / "data")},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_backup_under_load_is_restored_with_every_job_and_file_and_runs_on(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    with (
        ScriptedDownstream() as gateway,
        Service(old, GATEWAY_URL=gateway.url, WORKER_CONCURRENCY="2") as service,
    ):
        gateway.script(*[GOOD] * 5, hang(GOOD), path="/convert")
        service.client.get("/api/jobs")
        cookie = "=".join(session_cookie(service.client))
        answered = []

        def upload():
            answered.extend(
                service.upload(pdf(f"file {number}")).json()["job"]["id"]
                for number in range(UPLOADS)
            )

        loading = threading.Thread(target=upload)
        loading.start()
        gateway.wait_for_requests(6, 60)
        before = list(answered)
        told = holdfast(old, "backup", str(tmp_path / "backup"))
        loading.join(60)
        assert len(answered) == UPLOADS
        assert told.startswith(f"Backed up to {tmp_path / 'backup'}: the database and ")
        service.kill()
        gateway.release()

        told = holdfast(new, "restore", str(tmp_path / "backup"))

        assert "all checksums match" in told
        gateway.script(GOOD, path="/convert")
        with Service(new, GATEWAY_URL=gateway.url) as restored:
            client = restored.browser(cookie=cookie)
            jobs = {job["id"]: job for job in client.get("/api/jobs?limit=100").json()["jobs"]}
            assert set(before) <= set(jobs) <= set(answered)
            assert sum(job["status"] == "complete" for job in jobs.values()) >= 5
            for job_id in jobs:
                assert restored.wait(job_id, client=client)["status"] == "complete"
                assert client.get(f"/api/jobs/{job_id}/download").content == XML
