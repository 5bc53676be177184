"""The fixtures of the pytest plugin, in a test run of their own."""

import importlib.metadata
import subprocess
import sys

TESTS = """
import asyncio, urllib.request

from holdfast import App, Exponential, JobContext, RetryPolicy

app = App("shop")

@app.job(retry=RetryPolicy(max_attempts=3, backoff=Exponential(base=3600, cap=86400, jitter=0)))
async def charge(ctx: JobContext, order: int) -> str:
    if ctx.attempt < 3:
        raise ConnectionError
    return f"charged {order}"

def test_a_charge_is_tried_again(holdfast_engine, virtual_clock):
    engine = holdfast_engine(app)
    job = engine.enqueue(charge, 7)
    engine.run_until_idle()
    assert engine.result(job) == "charged 7"
    assert virtual_clock.monotonic() == 3600 + 7200

def test_an_engine_takes_options(holdfast_engine):
    assert holdfast_engine(app, seed=3).enqueue(charge, 7).created

def test_async_code_runs_on_the_clock(virtual_clock):
    virtual_clock.run(asyncio.sleep(3600))
    assert virtual_clock.monotonic() == 3600

def test_a_server_answers(scripted_downstream):
    with urllib.request.urlopen(scripted_downstream.url) as response:
        assert response.status == 200
"""


def run_pytest(folder, source):
    """Run the tests in `source` in an interpreter of its own; return its output."""
    (folder / "test_shop.py").write_text(source, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:schemathesis"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_fixtures_are_there_without_a_word_in_the_test(tmp_path):
    assert "4 passed" in run_pytest(tmp_path, TESTS)


def test_an_engine_left_open_is_closed_after_its_test(tmp_path):
    assert "2 passed" in run_pytest(
        tmp_path,
        """
import threading
from holdfast import App

def test_open(holdfast_engine):
    holdfast_engine(App("shop"))

def test_closed():
    assert [each for each in threading.enumerate() if each.name == "holdfast-engine"] == []
""",
    )


def test_nothing_of_holdfast_is_loaded_before_a_fixture_is_used(tmp_path):
    assert "1 passed" in run_pytest(
        tmp_path,
        """
import sys

def test_loaded():
    assert "_holdfast_pytest" in sys.modules
    assert [name for name in sys.modules if name.partition(".")[0] == "holdfast"] == []
""",
    )


def test_the_plugin_is_an_entry_point():
    (found,) = importlib.metadata.entry_points(group="pytest11", name="holdfast")
    assert found.value == "_holdfast_pytest"
