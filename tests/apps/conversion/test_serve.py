"""`holdfast serve`: one command, several processes; tests/acceptance kills it and its gateway."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from tests.apps.conversion.gateway_process import environment, ticks
from tests.apps.conversion.pdf_writer import document, paragraph
from tests.apps.conversion.service import Service, pdf
from tests.support.log_records import unexpected_tracebacks
from tests.support.processes import children_of, is_alive

from holdfast import SystemClock
from holdfast.cli.sidecars import Sidecars
from holdfast_conversion.app import Conversion
from holdfast_conversion.service_settings import ConversionSettings


def run(*words, **settings):
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
        env={**environment(), **settings},
    )


# -- starting and stopping -------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything_cleanly(tmp_path, how):
    with Service(tmp_path) as service:
        job_id = service.upload(pdf("before the end")).json()["job"]["id"]
        service.wait(job_id)
        pid = service.process.pid
        children = children_of(pid)
        assert children

        assert service.stop(how) == 0
        assert not any(is_alive(each) for each in children)
        assert unexpected_tracebacks(service.output) == []


def test_a_second_start_on_the_same_port_is_an_error_of_one_line(tmp_path):
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
    "settings, code, line",
    [
        ({"CIRCUIT_MODE": "x"}, 1, "CIRCUIT_MODE must be one of hold, fail_fast, got 'x'"),
        ({"PORT": "x"}, 1, "PORT must be a whole number from 0 to 65535, got 'x'"),
        ({"HOLDFAST_DATABASE_URL": "mysql://x"}, 2, "the database's address has the unknown"),
    ],
)
def test_a_bad_setting_stops_the_start_with_one_line(tmp_path, settings, code, line):
    data = {"HOLDFAST_DATA_DIR": str(tmp_path), "PORT": "0"}
    done = run("serve", "holdfast_conversion.app:create", **{**data, **settings})

    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"holdfast: {line}")


def test_an_unknown_setting_is_a_warning(tmp_path):
    with Service(tmp_path, HOLDFAST_DATADIR="x") as service:
        assert any("HOLDFAST_DATADIR is not a setting" in line for line in service.output)


def test_an_unknown_app_is_named(tmp_path):
    done = run("serve", "nowhere.jobs:app", PORT="0", HOLDFAST_DATA_DIR=str(tmp_path))

    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert run("serve", "unheard-of", PORT="0").returncode == 2


def test_a_gateway_that_dies_is_started_again(tmp_path):
    # Attempts for a minute of failed trials, so that the gateway may start slowly.
    with Service(
        tmp_path, CIRCUIT_THRESHOLD="1", CIRCUIT_TIMEOUT="2000", RETRY_MAX_ATTEMPTS="30"
    ) as service:
        (gateway,) = children_of(service.process.pid)
        os.kill(gateway, signal.SIGKILL)
        job_id = service.upload(pdf("meanwhile")).json()["job"]["id"]

        assert service.wait(job_id)["status"] == "complete"
        # It accepts connections slightly before the service knows that it does.
        service.until(lambda: service.client.get("/readyz").status_code == 200)


def test_a_conversion_whose_reader_is_killed_is_tried_again_and_ends_complete(tmp_path):
    page = paragraph(40, 780, ["words to take time with, and more"] * 60, 9)
    with Service(tmp_path) as service:
        # After one file all readers have started and are idle.
        service.wait(service.upload(pdf("first")).json()["job"]["id"])
        (gateway,) = children_of(service.process.pid)
        at_rest = {reader: ticks(reader) for reader in children_of(gateway)}
        job_id = service.upload(document(*[page] * 150), "layout").json()["job"]["id"]
        busy = service.until(
            lambda: next((pid for pid, rest in at_rest.items() if ticks(pid) > rest + 5), None)
        )
        # As the kernel does when memory runs out.
        os.kill(busy, signal.SIGKILL)

        job = service.wait(job_id, seconds=90)
        assert (job["status"], job["attemptCount"]) == ("complete", 2)
        assert is_alive(gateway)


def test_services_started_at_the_same_moment_have_a_gateway_each(tmp_path):
    """Both are declared before either gateway listens, as when two commands start together."""
    services = [Conversion(ConversionSettings(files=tmp_path / name)) for name in ("a", "b")]
    clock = SystemClock()

    async def start_both():
        async with (
            Sidecars(services[0].sidecars(), clock) as first,
            Sidecars(services[1].sidecars(), clock) as second,
        ):
            assert (first.missing(), second.missing()) == (None, None)
            assert services[0].gateway.url != services[1].gateway.url
            for service in services:
                await service.gateway.check()

    asyncio.run(start_both())


def test_a_gateway_does_not_outlive_a_service_that_is_killed(tmp_path):
    with Service(tmp_path) as service:
        children = children_of(service.process.pid)
        service.kill()
        service.until(lambda: not any(is_alive(each) for each in children))
