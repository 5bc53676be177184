"""Each store in turn, and worker processes that end with the test."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)
from tests.support.stores import database_url, sqlite_url  # noqa: F401 - the same

from holdfast.bootstrap import open_store

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(database_url):  # noqa: F811 - the fixture above
    """The address of an empty store."""
    return database_url


class Fleet:
    """Worker processes on one store, with a ledger of what their jobs did."""

    def __init__(self, url, folder):
        self.url = url
        self.folder = folder
        self.ledger = folder / "ledger"
        self.workers = []

    def open(self):
        return open_store(self.url)

    def start(self, **options):
        """Start a worker and return once it runs."""
        options = {"lease_seconds": 1.0, "extend_every": 0.2, "concurrency": 4, **options}
        command = [sys.executable, "-m", "tests.faults.worker_process", self.url]
        environment = {
            **os.environ,
            "FAULTS_LEDGER": str(self.ledger),
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        }
        worker = subprocess.Popen(
            [*command, json.dumps(options)], cwd=ROOT, env=environment, stdout=subprocess.PIPE
        )
        self.workers.append(worker)
        assert worker.stdout.readline() == b"running\n"
        return worker

    def kill(self, worker):
        worker.kill()
        worker.wait()
        worker.stdout.close()
        self.workers.remove(worker)

    def stop(self, worker):
        """Stop a worker with SIGTERM and return its exit status."""
        worker.send_signal(signal.SIGTERM)
        status = worker.wait(20)
        worker.stdout.close()
        self.workers.remove(worker)
        return status

    def close(self):
        for worker in tuple(self.workers):
            self.kill(worker)


@pytest.fixture
def fleet(url, tmp_path):
    made = Fleet(url, tmp_path)
    try:
        yield made
    finally:
        made.close()
