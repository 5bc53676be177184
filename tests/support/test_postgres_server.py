"""A private server: located, started, restarted, killed and removed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from tests.support import postgres_server as postgres
from tests.support.postgres import obtain
from tests.support.postgres_server import (
    ENVIRONMENT,
    PostgresMissing,
    PostgresServer,
    find_binaries,
)


@pytest.fixture
def server():
    made = obtain(fsync=False)
    if not made.private:
        pytest.skip("this server is not ours to stop")
    yield made
    made.close()


def folder_of(server):
    return Path(server.execute("SHOW data_directory")[0][0])


def test_data_survives_stop_restart_and_kill(server):
    name = server.create_database()
    server.execute("CREATE TABLE t (n int)", name)
    for number, end in enumerate((server.stop, server.kill)):
        server.execute(f"INSERT INTO t VALUES ({number})", name)
        end()
        with pytest.raises(psycopg.OperationalError):
            server.execute("SELECT 1")
        server.start()
    server.restart()
    assert server.execute("SELECT n FROM t ORDER BY n", name) == [(0,), (1,)]


def test_a_server_is_of_the_version_of_the_programs_that_were_chosen(server):
    programs = find_binaries()
    said = subprocess.run(
        [programs / "postgres", "--version"], capture_output=True, check=True, text=True
    )
    assert server.execute("SHOW server_version")[0][0] in said.stdout


def test_databases_are_copied_and_dropped(server):
    template = server.create_database()
    server.execute("CREATE TABLE t (n int)", template)
    copy = server.create_database(template)
    assert server.execute("SELECT count(*) FROM t", copy) == [(0,)]
    server.drop_database(copy)
    server.drop_database(copy)
    assert server.execute(f"SELECT 1 FROM pg_database WHERE datname = '{copy}'") == []


def test_closing_deletes_everything_and_closing_again_is_harmless():
    with obtain(fsync=False) as server:
        if not server.private:
            pytest.skip("this server is not ours")
        folder = folder_of(server)
        assert folder.is_dir()
        assert "database system is ready" in server.log()
    assert not folder.exists()
    assert server.log() == ""
    server.close()


def test_a_server_ends_with_the_process_that_started_it():
    program = (
        "from tests.support.postgres_server import PostgresServer\n"
        "import sys\n"
        "server = PostgresServer(fsync=False)\n"
        "server.start()\n"
        "print(server.execute('SHOW data_directory')[0][0], flush=True)\n"
        "sys.stdin.read()\n"
    )
    find_binaries()
    environment = {**os.environ, ENVIRONMENT: ""}
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    folder = Path(child.stdout.readline().strip())
    pid = (folder / "postmaster.pid").read_text().split()[0]
    child.kill()
    child.communicate()
    give_up = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
    subprocess.run(["rm", "-rf", folder], check=True)


def test_without_a_server_the_error_has_advice(monkeypatch):
    monkeypatch.setattr(postgres, "_INSTALLED", Path("/nowhere"))
    monkeypatch.setattr(postgres.shutil, "which", lambda name: None)
    with pytest.raises(PostgresMissing, match=ENVIRONMENT):
        find_binaries()


def test_a_server_from_the_environment_is_used_and_not_stopped(server, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, server.url())
    with PostgresServer() as other:
        assert not other.private
        name = other.create_database()
        assert other.url(name).startswith(server.url().rpartition("/")[0])
        other.drop_database(name)
    assert server.execute("SELECT 1") == [(1,)]
