"""Declared dependencies are used, and `make run` installs only what it needs."""

import ast
import re
import tomllib

import pytest


@pytest.fixture(scope="module")
def packages(root):
    """The `[project]` tables of Holdfast and of its apps."""
    files = [root / "pyproject.toml", *sorted(root.glob("apps/*/pyproject.toml"))]
    return [tomllib.loads(path.read_text("utf-8"))["project"] for path in files]


IMPORTED_AS = {
    "aio-pika": "aio_pika",
    "google-genai": "google",
    "opentelemetry-api": "opentelemetry",
    "prometheus-client": "prometheus_client",
}
"""Distributions whose packages have another name."""


def names(requirements):
    """Return the names that requirement lines such as `a[b]>=1` begin with."""
    return {re.match(r"[a-z0-9-]+", line).group() for line in requirements}


def pins(root, lock):
    text = (root / "requirements" / f"{lock}.txt").read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def test_one_environment_can_hold_both_locks(root):
    assert pins(root, "run").items() <= pins(root, "dev").items()


def test_the_run_lock_has_what_holdfast_and_its_apps_declare(root, packages):
    """All but Celery: its workers are started by its own command, never by `make run`."""
    declared = set().union(*(names(each["dependencies"]) for each in packages))
    extras = packages[0]["optional-dependencies"]
    declared |= set().union(*(names(extras[extra]) for extra in extras if extra != "celery"))
    ours = {each["name"] for each in packages}
    assert declared - ours - set(pins(root, "run")) == set()


def test_the_run_lock_has_none_of_the_tools_of_the_gate(root):
    tools = {"hypothesis", "import-linter", "mypy", "playwright", "pytest", "ruff"}
    assert tools <= set(pins(root, "dev"))
    assert tools & set(pins(root, "run")) == set()


def test_each_extra_brings_a_library_that_shipped_code_imports(packages, shipped):
    imported = {
        name.partition(".")[0]
        for tree in shipped.values()
        for node in ast.walk(tree)
        for name in imports(node)
    }
    unused = [
        extra
        for extra, requirements in packages[0]["optional-dependencies"].items()
        if not {IMPORTED_AS.get(each, each) for each in names(requirements)} & imported
    ]
    assert unused == []


def imports(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
