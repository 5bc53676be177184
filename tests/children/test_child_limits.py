"""Limits of a child are those of the operating system, set in a process of its own."""

import json
import resource
import subprocess
import sys
import textwrap

import pytest
from tests.support.waiting import SOON

from holdfast.children import ChildLimits
from holdfast.children.child_limits import MEGABYTE

BEGIN = """
    import errno
    import json
    import os
    import resource
    from holdfast.children import ChildLimits

    def said(value):
        print(json.dumps(value), flush=True)
"""


def run(script):
    """Run `script` in a process and return what it said."""
    text = textwrap.dedent(BEGIN) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=SOON
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[0])


def test_memory_beyond_the_limit_is_refused():
    assert (
        run("""
            ChildLimits(memory_bytes=512 * 2**20).apply()
            small = bytearray(2**20)
            try:
                large = bytearray(2**30)
            except MemoryError:
                said("refused")
            """)
        == "refused"
    )


def test_a_longer_file_and_one_more_open_file_are_refused(tmp_path):
    found = run(f"""
        ChildLimits(file_bytes=1000, open_files=16).apply()
        failures = []
        file = os.open({str(tmp_path / "out")!r}, os.O_CREAT | os.O_WRONLY)
        assert os.write(file, b"x" * 1000) == 1000
        try:
            os.write(file, b"x")
        except OSError as error:
            failures.append(errno.errorcode[error.errno])
        try:
            for _ in range(16):
                os.dup(file)
        except OSError as error:
            failures.append(errno.errorcode[error.errno])
        said(failures)
        """)
    assert found == ["EFBIG", "EMFILE"]


def test_a_child_leaves_no_core_file_and_what_has_no_limit_stays_as_it_is():
    found = run("""
        names = ("RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
        before = [resource.getrlimit(getattr(resource, name)) for name in names]
        ChildLimits(memory_bytes=None).apply()
        after = [resource.getrlimit(getattr(resource, name)) for name in names]
        said([resource.getrlimit(resource.RLIMIT_CORE), before == after])
        """)
    assert found == [[0, 0], True]


def test_a_limit_that_the_system_sets_lower_stays():
    found = run("""
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
        limits = ChildLimits(memory_bytes=None, cpu_seconds=1000, open_files=64)
        limits.apply()
        limits.allow_cpu()
        said([resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CPU)])
        """)
    assert found == [[32, 32], [100, 100]]


def test_processor_time_counts_from_the_request_on():
    first, second = run("""
        limits = ChildLimits(cpu_seconds=10)
        limits.allow_cpu()
        first = resource.getrlimit(resource.RLIMIT_CPU)[0]
        while sum(os.times()[:2]) < 1.5:
            pass
        limits.allow_cpu()
        said([first, resource.getrlimit(resource.RLIMIT_CPU)[0]])
        """)
    # The kernel counts whole seconds, so the limit is rounded up.
    assert first >= 11
    assert second >= 12


def test_without_a_limit_processor_time_is_not_limited():
    before = resource.getrlimit(resource.RLIMIT_CPU)
    ChildLimits().allow_cpu()
    assert resource.getrlimit(resource.RLIMIT_CPU) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"memory_bytes": 64 * MEGABYTE - 1},
        {"cpu_seconds": 0},
        {"output_bytes": 0},
        {"file_bytes": -1},
        {"open_files": 7},
        {"requests": 0},
    ],
)
def test_a_limit_that_cannot_work_is_refused(fields):
    [name] = fields
    with pytest.raises(ValueError, match=name):
        ChildLimits(**fields)
