"""A full disk or a lock that stays: the worker waits, and nothing acknowledged is lost (SQLite)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.sqlite.store import SQLiteStore

ROOT = Path(__file__).parents[2]
NO_SMALL_DISK = "no small file system can be mounted here"

_MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'
_ONLY_PROGRESS = """
import asyncio, sys
from tests.faults.test_disk_and_lock import report_progress
print(asyncio.run(report_progress(sys.argv[1])))
"""


def on_a_small_disk(size, folder, command):
    """Return a command that runs `command` with a file system of `size` bytes on `folder`.

    Only that process sees it, and it ends with the process.
    """
    own_names = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    begin = ["unshare", *own_names, "sh", "-c", _MOUNT, "mount", str(size), str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*begin, "true"], check=False).returncode:
        pytest.skip(NO_SMALL_DISK)
    return [*begin, *command]


def output_of(command):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, timeout=110, check=True
    )
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("disk", "StoreFull"),
        # The kernel reports a file that may not grow differently from a full disk.
        ("limit", "StoreDiskError"),
        ("lock", "StoreBusy"),
        ("killed", "StoreBusy"),
    ],
)
def test_a_worker_waits_until_the_fault_is_over_and_loses_nothing(tmp_path, fault, error):
    command = [sys.executable, "-m", "tests.faults.fault_process", fault, str(tmp_path)]
    if fault == "disk":
        command = on_a_small_disk("24m", tmp_path, command)
    found = json.loads(output_of(command))
    assert found["acknowledged"] >= 100
    assert found["completions"] == [1]
    assert found["errors"] == [error]
    assert found["refused_and_there"] == []
    assert found["integrity"] == "ok"
    # A heartbeat that crosses a report logs a lost lease; that is unrelated to the fault.
    lines = [line for line in found["lines"] if "lost its lease" not in line]
    # On a full disk a small write may succeed now and then: two lines for each outage, and not one
    # for each refused write.
    assert len(lines) == 2 or (fault == "disk" and len(lines) <= 10)
    assert all("does not answer" in line for line in lines[::2])
    assert all("answers again" in line for line in lines[1::2])
    assert len(lines) % 2 == 0


async def report_progress(path):
    """Overwrite the same few pages repeatedly; return how many writes were accepted."""
    async with SQLiteStore(path) as store:
        await store.enqueue([NewJob("a", "work")])
        request = ClaimRequest(1, ("default",), {"work": None})
        (claim,) = (await store.tick("w", (), request)).claims
    async with SQLiteStore(path) as store:
        accepted = [await store.progress(claim.lease, 0.5, f"step {n}") for n in range(1000)]
        return sum(accepted)


def test_a_log_that_fills_the_disk_is_checkpointed_and_reused(tmp_path):
    # Each write takes some pages: together the log would be several times larger than the disk.
    script = [sys.executable, "-c", _ONLY_PROGRESS, str(tmp_path / "a.db")]
    assert output_of(on_a_small_disk("2m", tmp_path, script)) == "1000\n"
