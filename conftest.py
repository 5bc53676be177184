"""Run every Python snippet of the README and the docs as a test, and share out what tests run.

The closing lines say what was not run, and why.
"""

from collections import Counter

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/**/*.md"],
).pytest()

ONE_AT_A_TIME = ("tests/acceptance/", "tests/browser/", "tests/campaigns/", "tests/faults/")
"""Whose tests start many processes: two of them at once would fight for the machine."""


class Sharing(LoadScopeScheduling):
    """Where several processes test (`-n 2`), keep the tests of a file together.

    Those of `ONE_AT_A_TIME` follow each other in one process, and the others do the rest.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "processes" if file.startswith(ONE_AT_A_TIME) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing:
    """Share out tests in the order of their files: what takes longest comes first."""
    config.option.loadscopereorder = False
    return Sharing(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly how many tests were not run, by what this machine lacks for them."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in sorted(reasons.items()):
        line = f"NOT RUN: {count} test{'s' * (count > 1)}: {reason}"
        terminalreporter.write_line(line, red=True, bold=True)
