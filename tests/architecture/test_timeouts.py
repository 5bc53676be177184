"""The timeout of a test is shorter than that of the whole process."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_test_may_take_longer_than_the_process_that_runs_it():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    files = (ROOT / "tests").rglob("test_*.py")
    marks = [
        int(found)
        for file in files
        for found in re.findall(r"mark\.timeout\((\d+)\)", file.read_text())
    ]

    assert marks
    assert max(marks) < options["faulthandler_timeout"]
    assert options["timeout"] < options["faulthandler_timeout"]
