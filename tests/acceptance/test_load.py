"""Twenty large uploads at once, and a full disk.

Uploads are streamed to disk, so the server's memory must not grow with them.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.apps.conversion.service import Service, pdf

MEBIBYTE = 1024 * 1024
LARGE = 50 * MEBIBYTE
AT_ONCE = 20
MOST_GROWTH = 16 * MEBIBYTE


def memory_of(pid, name):
    """Return VmRSS (current) or VmHWM (peak memory), in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name}")


def padded(words, size):
    content = pdf(words)
    return content + b"\n" * (size - len(content))


@pytest.mark.timeout(300)
def test_memory_stays_flat_while_twenty_uploads_of_50_mb_run_at_once(tmp_path):
    with Service(tmp_path, "--no-worker", GATEWAY_URL="http://127.0.0.1:9") as service:
        pid = service.process.pid
        content = padded("large", LARGE)
        # Warm up: load lazily imported modules and start the writing threads.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda n: service.upload(pdf(f"small {n}")), range(3 * AT_ONCE)))
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the peak to the current value
        before = memory_of(pid, "VmRSS")

        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda _: service.upload(content), range(AT_ONCE)))

        assert {answer.status_code for answer in answers} <= {200, 201}
        assert len({answer.json()["job"]["id"] for answer in answers}) == 1
        assert memory_of(pid, "VmHWM") - before < MOST_GROWTH


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be mounted by root; test_routes.py plays a full one")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_below_the_free_disk_mark_no_file_is_taken_in_and_the_server_is_ready(small_disk):
    with Service(small_disk) as service:
        refused = service.upload(pdf("small enough"))

        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "INTAKE_PAUSED"
        assert service.files("uploads") == []
        assert service.client.get("/readyz").status_code == 200


def test_a_full_disk_is_reported_and_no_file_is_left_on_it(small_disk):
    with Service(small_disk, HOLDFAST_MIN_FREE_BYTES="0") as service:
        before = os.statvfs(small_disk).f_bfree

        answer = service.upload(padded("too much", 20 * MEBIBYTE))

        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "IO_ERROR")
        assert answer.json()["error"]["message"] == "There is no room left to store files."
        assert (service.files("uploads"), service.files(".drafts")) == ([], [])
        # The refusal's record may add a page or two to the database.
        service.until(lambda: before - os.statvfs(small_disk).f_bfree < 100)
        job_id = service.upload(pdf("small enough")).json()["job"]["id"]
        assert service.wait(job_id)["status"] == "complete"
