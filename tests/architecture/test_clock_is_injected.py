"""Time and randomness are injected: only clock.py and testing/ may use them directly."""

import ast

import pytest

FORBIDDEN_EXACTLY = {
    "asyncio.sleep",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
}
LOOPS = {"asyncio.get_event_loop", "asyncio.get_running_loop", "asyncio.new_event_loop"}
# Classes for a separate generator; everything else in `random` is the shared one.
ALLOWED_FROM_RANDOM = {"random.Random", "random.SystemRandom"}


def test_no_shipped_module_reads_the_clock_or_draws_from_the_shared_generator(shipped):
    found = {
        path: reached
        for path, tree in shipped.items()
        if path != "clock.py" and not path.startswith("testing/") and (reached := reaches(tree))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.monotonic()",
        "import time as t\nt.sleep(1)",
        "import time\ndef f(now=time.time): ...",
        "from time import perf_counter",
        "from datetime import datetime\ndatetime.now()",
        "from datetime import UTC, datetime as dt\ndt.now(UTC)",
        "import datetime\ndatetime.datetime.utcnow()",
        "from datetime import date\ndate.today()",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        "from asyncio import sleep",
        "import asyncio\nasyncio.get_running_loop().time()",
        "def f(loop):\n    return loop.time()",
        "def f(self):\n    return self._loop.time()",
        "import random\nrandom.uniform(0, 1)",
        "import random\nfrom random import random",
        "import random\ndef f(draw=random.random): ...",
    ],
)
def test_the_check_sees(source):
    assert reaches(ast.parse(source)) != []


@pytest.mark.parametrize(
    "source",
    [
        "import random\ndef f(rng: random.Random): return rng.random()",
        "import random\nrng = random.Random(7)\nrng.uniform(0, 1)",
        "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC)",
        "def f(clock): return clock.monotonic()",
        "async def f(clock): await clock.sleep_async(1)",
        "def f(moment): return moment.time()",
        "import asyncio\nasyncio.get_running_loop().create_future()",
    ],
)
def test_the_check_lets_pass(source):
    assert reaches(ast.parse(source)) == []


def reaches(tree: ast.Module) -> list[str]:
    """Return each forbidden name that a module imports or uses, with its line."""
    bound: dict[str, str] = {}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound[alias.asname or alias.name.partition(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                bound[alias.asname or alias.name] = name = f"{node.module}.{alias.name}"
                if is_forbidden(name):
                    found.append(f"line {node.lineno}: {name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = full_name(node, bound)
            if is_forbidden(name) or is_loop_time(node, bound):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def is_forbidden(name: str) -> bool:
    module = name.partition(".")[0]
    return (
        name in FORBIDDEN_EXACTLY
        or (module == "time" and "." in name)
        or (module == "random" and "." in name and name not in ALLOWED_FROM_RANDOM)
    )


def is_loop_time(node: ast.Attribute, bound: dict[str, str]) -> bool:
    if node.attr != "time":
        return False
    owner = node.value
    if isinstance(owner, ast.Call):
        return full_name(owner.func, bound) in LOOPS
    return full_name(owner, bound).endswith("loop")


def full_name(node: ast.expr, bound: dict[str, str]) -> str:
    """Spell a chain of attributes with its first name resolved through the imports."""
    if isinstance(node, ast.Attribute):
        return f"{full_name(node.value, bound)}.{node.attr}"
    if isinstance(node, ast.Name):
        return bound.get(node.id, f"<{node.id}")
    return "<expression>"
