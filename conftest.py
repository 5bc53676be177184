"""Run every Python snippet of the README and the docs as a test, and share out what tests run.

The closing lines say what was not run, and why.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from coverage import Coverage
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Before anything imports it: failed asserts of the conformance suite show their values.
pytest.register_assert_rewrite("holdfast.testing.conformance")

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/**/*.md"],
    fixtures=["holdfast_engine"],  # for a snippet that is a test
).pytest()

BROWSER = "tests/browser/"
MANY_PROCESSES = (
    "tests/acceptance/", "tests/apps/conversion/test_fairness.py",
    "tests/apps/conversion/test_serve.py", "tests/apps/grading/broker/",
    "tests/apps/grading/test_serve.py", BROWSER, "tests/campaigns/",
    "tests/cli/test_relay_process.py", "tests/cli/test_serve.py", "tests/cli/test_stopping.py",
    "tests/faults/", "tests/messaging/celery/",
)  # fmt: skip
"""Whose tests start many processes, and wait for them about as long as they compute."""
MEASURED = (
    "tests/apps/conversion/gateway/test_main.py",
    "tests/apps/conversion/gateway/test_reader_pool.py", "tests/apps/grading/graders/",
    "tests/apps/ingestion/extraction/", "tests/children/",
    "tests/cli/test_relay_process.py", "tests/cli/test_worker_process.py",
    "tests/jobs/worker/isolation/",
)  # fmt: skip
"""Whose processes are measured: each program is started here. In other tests coverage would nearly
double the time of each start."""
UNMEASURED = (
    "docs/", "README.md", "tests/acceptance/", "tests/apps/conversion/test_fairness.py",
    "tests/apps/conversion/test_real_pdfs.py", "tests/apps/ingestion/test_real_documents.py",
    BROWSER, "tests/campaigns/", "tests/docs/", "tests/faults/",
)  # fmt: skip
"""Whose tests put whole systems under load or faults. Other tests cover the code that they run, and
coverage would only make them longer."""


@pytest.fixture(autouse=True, scope="module")
def _unmeasured_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Measure the processes that the tests of `MEASURED` start, and no others."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.nodeid.startswith(MEASURED):
            patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        yield


@pytest.fixture(autouse=True, scope="module")
def _unmeasured_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Pause coverage, if it measures, during the tests of `UNMEASURED`."""
    measuring = Coverage.current() if request.node.nodeid.startswith(UNMEASURED) else None
    if measuring is None:
        yield
        return
    measuring.stop()
    yield
    measuring.start()


class Sharing(LoadScopeScheduling):
    """Where several processes test (`-n 4`), keep the tests of a file together.

    The files of `MANY_PROCESSES` take longest and come first, but one process runs other files as
    long as there are any: it computes while the others wait. Files with many tests come before
    those with few, so that all processes end together. The browser's files share one browser, so
    they stay together too.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return BROWSER if file.startswith(BROWSER) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        others = [work for other, work in self.assigned_work.items() if other is not node]
        free = not all(_starts_many_processes(work) for work in others)
        fitting = [file for file in self.workqueue if file.startswith(MANY_PROCESSES) == free]
        largest = max(fitting or self.workqueue, key=lambda file: len(self.workqueue[file]))
        self.workqueue.move_to_end(largest, last=False)
        super()._assign_work_unit(node)


def _starts_many_processes(work: dict[str, dict[str, bool]]) -> bool:
    """Say whether a process still has tests of `MANY_PROCESSES` to run."""
    return any(
        file.startswith(MANY_PROCESSES) and not all(done.values()) for file, done in work.items()
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing:
    """Share out whole files."""
    config.option.loadscopereorder = False
    return Sharing(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly how many tests were not run, by what this machine lacks for them."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in sorted(reasons.items()):
        line = f"NOT RUN: {count} test{'s' * (count > 1)}: {reason}"
        terminalreporter.write_line(line, red=True, bold=True)
