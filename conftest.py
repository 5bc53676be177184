"""Run every Python snippet of the README and the docs as a test, and share out what tests run.

The closing lines say what was not run, and why.
"""

from collections import Counter

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/**/*.md"],
).pytest()

BROWSER = "tests/browser/"
ONE_AT_A_TIME = ("tests/acceptance/", BROWSER, "tests/campaigns/", "tests/faults/")
"""Whose tests start many processes: two of them at once would fight for the machine."""


class Sharing(LoadScopeScheduling):
    """Where several processes test (`-n 2`), keep the tests of a file together.

    While one process runs a file of `ONE_AT_A_TIME`, the others run other files as long as there
    are any. The browser's files share one browser, so they stay together too.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return BROWSER if file.startswith(BROWSER) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        taken = any(
            file.startswith(ONE_AT_A_TIME) and not all(done.values())
            for other, work in self.assigned_work.items()
            if other is not node
            for file, done in work.items()
        )
        fitting = (file for file in self.workqueue if file.startswith(ONE_AT_A_TIME) != taken)
        self.workqueue.move_to_end(next(fitting, next(iter(self.workqueue))), last=False)
        super()._assign_work_unit(node)


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
