"""`holdfast serve` with an app of a few lines; tests/apps serves a real one."""

import asyncio
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import apsw
import httpx
import pytest
from tests.apps.conversion.gateway_process import environment
from tests.support.cookies import session_cookie
from tests.support.postgres import obtain
from tests.support.waiting import until_sync

from holdfast import Engine
from holdfast.bootstrap import load_reference
from holdfast.cli.serve import CannotListen, kept_secret, listening
from holdfast.settings import BadSetting
from holdfast.store.postgres.store import PostgresStore

SOON = 60.0
MODULE = """
    import asyncio
    import os
    from pathlib import Path

    from fastapi import APIRouter, Request

    from holdfast import App, JobContext
    from holdfast.http import Caller, ServedApp, Sidecar

    app = App("letters")

    @app.job()
    async def wait(ctx: JobContext, marker: str) -> None:
        Path(marker).touch()
        await asyncio.sleep(600)

    class Letters(ServedApp):
        def sidecars(self):
            if "SLOW" in os.environ:
                return [Sidecar("slow one", "letters_slow")]
            return []

        def routes(self, state):
            router = APIRouter()

            @router.post("/api/letters", tags=["streamed"])
            async def take(request: Request) -> int:
                size = 0
                async for piece in request.stream():
                    size += len(piece)
                    Path("taking").touch()
                return size

            @router.get("/api/who")
            async def who(caller: Caller) -> str:
                return caller.organisation

            @router.get("/api/stuck")
            async def stuck() -> None:
                Path("stuck").touch()
                await asyncio.sleep(600)

            return router

    served = Letters(app)
"""
SLOW = """
    import os
    import time
    from pathlib import Path

    Path("slow").write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "letters_served.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "letters_slow.py").write_text(textwrap.dedent(SLOW))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("letters_served", None)


def command(*words, **settings):
    """A function that starts a command in the test's folder."""
    return {
        "args": [sys.executable, "-m", "holdfast", *words],
        "env": {**environment(), "PORT": "0", "HOLDFAST_DATA_DIR": "data", **settings},
        "text": True,
    }


class Running:
    """A running server; `output` are its lines so far."""

    def __init__(self, *options, **settings):
        self.output = []
        self._lines = queue.Queue()
        self.process = subprocess.Popen(
            **command("serve", "letters_served:served", *options, **settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self):
        self.until_served()
        return self

    def __exit__(self, *_):
        self.client.close()
        self.close()

    def until_served(self):
        self.url = self.wait_for("Holdfast is at ").split()[-1]
        self.client = httpx.Client(base_url=self.url, timeout=SOON, trust_env=False, verify=False)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()

    def _read(self):
        with self.process.stdout:
            for line in self.process.stdout:
                self.output.append(line.rstrip())
                self._lines.put(line.rstrip())
        self._lines.put(None)

    def wait_for(self, beginning):
        while (line := self._lines.get(timeout=SOON)) is not None:
            if line.startswith(beginning):
                return line
        raise AssertionError(f"{beginning!r} was not said:\n" + "\n".join(self.output))

    def until_logged(self, piece):
        while (line := self._lines.get(timeout=SOON)) is not None:
            if piece in line:
                return line
        raise AssertionError(f"{piece!r} was not logged:\n" + "\n".join(self.output))

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def ended(self):
        """Wait for its end; return the exit code and the output."""
        code = self.process.wait(SOON)
        self._reader.join(SOON)
        return code, "\n".join(self.output)

    def connect(self):
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=SOON)

    def status_of(self, job_id):
        return self.client.get(f"/api/jobs/{job_id}").json()["job"]["status"]

    def start_waiting(self):
        """Start a job of the client that does not end by itself."""
        self.client.get("/api/jobs")
        owner = session_cookie(self.client)[1].split(".")[0]

        async def enqueue():
            url = "sqlite:///data/holdfast.db"
            async with Engine(url, apps=[load_reference("letters_served:app")]) as engine:
                return (await engine.enqueue("letters.wait", "running", owner=owner)).id

        job_id = asyncio.run(enqueue())
        until_there("running")
        return job_id


def until_there(name):
    end = time.monotonic() + SOON
    while not Path(name).exists():
        assert time.monotonic() < end, f"{name} did not come"
        time.sleep(0.02)


def answer_of(connection):
    found = b""
    while piece := connection.recv(65536):
        found += piece
    return found.decode()


def test_a_cancelled_job_stops_long_before_the_next_heartbeat(folder):
    with Running(LEASE_MS="1800000", LEASE_EXTEND_MS="900000") as server:
        job_id = server.start_waiting()

        answer = server.client.post(f"/api/jobs/{job_id}/cancel")

        assert answer.status_code == 200
        end = time.monotonic() + SOON
        while server.status_of(job_id) != "cancelled":
            assert time.monotonic() < end
            time.sleep(0.05)


# -- stopping --------------------------------------------------------------------------------------


def test_stopping_prints_what_it_waits_for_and_how_to_end_at_once(folder):
    with Running() as server:
        server.start_waiting()

        server.interrupt()

        line = server.wait_for("stopping: ")
        assert line == "stopping: 1 job is finishing (up to 30 s); Ctrl-C again stops now"
        server.interrupt()
        code, said = server.ended()
        assert code == 0
        assert "Traceback" not in said


def test_without_a_running_job_stopping_prints_nothing_about_jobs(folder):
    with Running() as server:
        server.interrupt()

        code, said = server.ended()
        assert code == 0
        assert "stopping" not in said


def test_a_half_upload_ends_when_the_server_stops(folder):
    with Running() as server, server.connect() as connection:
        connection.sendall(
            b"POST /api/letters HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\nhalf"
        )
        until_there("taking")

        server.interrupt()

        answer = answer_of(connection)
        assert answer.startswith("HTTP/1.1 503")
        assert "The server is stopping" in answer
        code, said = server.ended()
        assert code == 0
        assert "Traceback" not in said


def test_a_request_that_is_cut_off_at_the_end_leaves_no_traceback(folder):
    with Running() as server, server.connect() as connection:
        connection.sendall(b"GET /api/stuck HTTP/1.1\r\nhost: here\r\n\r\n")
        until_there("stuck")

        server.interrupt()

        code, said = server.ended()
        assert code == 0
        assert "Traceback" not in said


# -- a store that does not answer at the start -----------------------------------------------------


@pytest.fixture
def database():
    server = obtain(fsync=False)
    asyncio.run(PostgresStore(server.url()).migrate())
    yield server
    server.close()


@pytest.fixture
def waiting(folder, database):
    """A server that was started while its database was down."""
    database.stop()
    server = Running(HOLDFAST_DATABASE_URL=database.url())
    line = server.until_logged("the store does not answer, waiting for it")
    assert "cannot be reached" in line
    yield server
    server.close()


def test_a_server_started_while_its_store_is_down_waits_for_it(waiting, database):
    database.start()

    waiting.until_logged("the store answers again")
    with waiting as server:
        end = time.monotonic() + SOON
        while server.client.get("/readyz").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        server.interrupt()
        code, said = server.ended()
    assert code == 0
    assert "Traceback" not in said


def test_a_server_that_waits_for_its_store_ends_when_it_is_asked_to(waiting):
    waiting.interrupt()

    code, said = waiting.ended()
    assert code == 0
    assert "Traceback" not in said
    assert "Holdfast is at" not in said


@pytest.mark.parametrize("name", ["serve", "worker"])
def test_a_start_ends_when_it_is_asked_to_while_the_stores_host_is_silent(folder, name):
    with socket.create_server(("127.0.0.1", 0)) as host:
        host.settimeout(SOON)
        url = f"postgresql://someone:secret@127.0.0.1:{host.getsockname()[1]}/jobs"
        # Less than the 10 s after which a connection that gets no answer is given up.
        started = command(name, "letters_served:served", "--database", url, WORKER_SHUTDOWN_MS="1")
        with subprocess.Popen(**started, stderr=subprocess.PIPE) as process:
            connection, _ = host.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                said = process.communicate(timeout=SOON)[1]
    assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize("name", ["serve", "worker"])
def test_a_wrong_password_or_database_is_one_line_at_once(folder, database, name):
    good = database.url()
    account, _, rest = good.rpartition("@")
    for url in (f"{account}wrong@{rest}", database.url("no_such_database")):
        started = command(name, "letters_served:served", "--database", url)
        done = subprocess.run(**started, capture_output=True, check=False, timeout=SOON)

        [line] = done.stderr.splitlines()
        assert done.returncode == 1
        assert "check the account, its password and rights, and the name of the database" in line


@pytest.mark.parametrize("name", ["serve", "worker"])
def test_a_start_ends_when_it_is_asked_to_while_a_sidecar_is_not_ready(folder, name):
    started = command(name, "letters_served:served", SLOW="1", WORKER_SHUTDOWN_MS="1")
    with subprocess.Popen(**started, stderr=subprocess.PIPE) as process:
        until_there("slow")

        process.send_signal(signal.SIGTERM)

        said = process.communicate(timeout=SOON)[1]
    assert (process.returncode, said) == (0, "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("slow").read_text()), 0)


# -- its parts -------------------------------------------------------------------------------------


def test_a_server_without_a_worker_is_ready_while_one_runs_elsewhere(folder):
    with Running("--no-worker") as server:
        answer = server.client.get("/readyz")
        assert (answer.status_code, answer.json()["missing"]) == (503, ["no worker runs"])
        with subprocess.Popen(**command("worker", "letters_served:served")) as worker:
            while server.client.get("/readyz").status_code != 200:
                assert worker.poll() is None
            worker.send_signal(signal.SIGTERM)
            worker.wait(SOON)
        assert server.client.get("/readyz").status_code == 503
        server.interrupt()
        assert server.ended()[0] == 0


@pytest.mark.parametrize("choice, beginning", [("on", "local"), ("off", "session:")])
def test_local_access_is_a_setting(folder, choice, beginning):
    with Running("--no-worker", HOLDFAST_LOCAL_ACCESS=choice) as server:
        assert server.client.get("/api/who").json().startswith(beginning)
        server.interrupt()
        assert server.ended()[0] == 0


def test_a_worker_that_was_asked_to_finish_leaves_the_server_running(folder):
    with Running(HOLDFAST_ADMIN_TOKEN="operator-token-of-the-test") as server:
        bearer = {"authorization": "Bearer operator-token-of-the-test"}
        # The address may be printed before the worker is in the store.
        (worker,) = until_sync(
            lambda: server.client.get("/api/workers", headers=bearer).json()["workers"]
        )
        server.client.post(f"/api/workers/{worker['id']}/finish", headers=bearer)
        server.until_logged("the worker has finished")

        answer = server.client.get("/readyz")
        assert answer.status_code == 503
        assert "no worker runs" in answer.text
        assert server.client.get("/api/jobs").status_code == 200
        server.interrupt()
        assert server.ended()[0] == 0


def test_a_worker_that_fails_ends_the_server_with_its_error(folder):
    with Running() as server:
        server.start_waiting()

        # The schema goes away below the worker: not an outage, nothing to wait for.
        connection = apsw.Connection("data/holdfast.db")
        connection.execute("DROP TABLE holdfast_jobs")
        connection.close()

        code, said = server.ended()
        assert code == 1
        assert "no such table" in said


def test_an_address_that_is_not_of_this_machine_cannot_be_listened_on():
    with (
        pytest.raises(CannotListen, match=re.escape("cannot listen on 192.0.2.1:80: ")),
        listening("192.0.2.1", 80),
    ):
        pass


def test_a_secret_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    path = tmp_path / "secret.key"

    made = kept_secret(path)

    assert len(made) >= 32
    assert kept_secret(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["secret.key"]


def test_a_secret_that_another_start_makes_meanwhile_is_used_by_both(tmp_path, monkeypatch):
    path, link = tmp_path / "secret.key", os.link

    def link_too_late(source, target):
        path.write_text("made by the other start")
        link(source, target)

    monkeypatch.setattr(os, "link", link_too_late)

    assert kept_secret(path) == "made by the other start"


@pytest.mark.parametrize(
    ("name", "line"),
    [("short.key", "holds no secret; delete it"), ("missing/secret.key", "cannot be kept there")],
)
def test_a_secret_that_cannot_be_used_is_a_bad_setting(tmp_path, name, line):
    (tmp_path / "short.key").write_text("short")
    with pytest.raises(BadSetting, match=line):
        kept_secret(tmp_path / name)


# -- the data directory ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["serve", "worker"])
def test_a_data_directory_that_cannot_be_used_is_one_line(folder, name):
    (folder / "plain").write_text("a file")

    started = command(name, "letters_served:served", HOLDFAST_DATA_DIR="plain")
    done = subprocess.run(**started, capture_output=True, check=False, timeout=SOON)

    line = "holdfast: HOLDFAST_DATA_DIR 'plain' cannot be used: it is not a folder"
    assert (done.returncode, done.stderr.splitlines()) == (1, [line])
