"""A module that runs beside a server gets its arguments, and ends when the server does."""

import signal
import subprocess
import sys
import textwrap

import pytest
from tests.support.waiting import SOON

MODULE = """
    import sys
    import time

    print(__name__, *sys.argv[1:], flush=True)
    if sys.argv[1] == "wait":
        time.sleep(600)
    sys.exit(7)
"""


@pytest.fixture
def start(tmp_path):
    (tmp_path / "beside.py").write_text(textwrap.dedent(MODULE))
    processes = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli.parent_watch", "beside", *words],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_the_module_runs_as_the_main_one_with_its_arguments_and_its_exit_code(start):
    process = start("end", "--port", "0")

    assert process.stdout.readline() == "__main__ end --port 0\n"
    assert process.wait(SOON) == 7


def test_the_module_gets_sigterm_when_its_parents_pipe_is_closed(start):
    process = start("wait")
    assert process.stdout.readline() == "__main__ wait\n"
    # What is written to the pipe is not its end.
    process.stdin.write("still here\n")
    process.stdin.flush()
    assert process.poll() is None

    process.stdin.close()

    assert process.wait(SOON) == -signal.SIGTERM
    process.stdin = None
