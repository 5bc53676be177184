"""The command: start, output and end."""

import json
import signal
import subprocess
import sys

import pytest
from tests.apps.conversion.gateway_process import Running, environment
from tests.apps.conversion.pdf_writer import Text, document

COMMAND = [sys.executable, "-m", "holdfast_conversion.gateway"]
HELLO = document([Text(72, 700, "Hello")])


def run(*words, **extra):
    return subprocess.run(
        [*COMMAND, *words],
        env={**environment(), **extra},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_converts_and_ends_cleanly(how):
    with Running([*COMMAND, "--port", "0", "--children", "1"]) as running:
        assert running.announced == f"gateway: listening on http://127.0.0.1:{running.port}"
        assert running.convert(HELLO).status_code == 200
        children = running.children()
        status = running.stop(how)
        assert status in {0, -how}
        assert running.process.stderr.read() == ""
        assert len(children) == 1


def test_a_second_one_on_the_same_port_is_an_error_of_one_line(gateway):
    done = run("--port", str(gateway.port))
    assert done.returncode == 1
    assert done.stderr == (f"gateway: port {gateway.port} is taken; choose another with --port\n")


@pytest.mark.parametrize("value", ["x", "0"])
def test_a_bad_size_stops_the_start_with_a_line_that_names_it(value):
    done = run("--port", "0", MAX_UPLOAD_BYTES=value)
    assert done.returncode == 2
    assert done.stderr.startswith("gateway: MAX_UPLOAD_BYTES must be a whole number")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words", [("--port", "70000"), ("--children", "0"), ("--wall-seconds", "nan")]
)
def test_a_bad_option_stops_the_start(words):
    done = run(*words)
    assert done.returncode == 2
    assert words[0] in done.stderr


def test_the_size_is_a_setting_and_faults_can_be_asked_for_by_command():
    command = [*COMMAND, "--port", "0", "--children", "1", "--chaos", "--verbose"]
    with Running(command, MAX_UPLOAD_BYTES="2000") as running:
        assert running.convert(HELLO + b"%" * 2000).status_code == 413
        port = str(running.port)
        done = run("chaos", "fail", "--status", "503", "--requests", "1", "--port", port)
        assert (done.returncode, json.loads(done.stdout)["mode"]) == (0, "fail")
        assert running.client.get("/health").status_code == 503
        done = run("chaos", "off", "--port", port)
        assert json.loads(done.stdout) == {"mode": None}
        done = run("chaos", "fail", "--share", "7", "--port", port)
        assert done.returncode == 1
        assert done.stderr == "gateway: share must be a number from 0 to 1\n"


def test_the_error_of_a_gateway_without_faults_has_advice(gateway):
    done = run("chaos", "fail", "--port", str(gateway.port))
    assert done.returncode == 1
    assert done.stderr == "gateway: this gateway was not started with --chaos\n"


def test_the_server_itself_never_loads_the_pdf_library():
    code = "import sys, holdfast_conversion.gateway.server; print('pypdfium2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
