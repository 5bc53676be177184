"""The service's modules import each other in one direction, also inside functions."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import holdfast_conversion

ROOT = Path(holdfast_conversion.__file__).parent


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path, modules):
    """Return the modules that a file imports; `from package import module` is the module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in modules else node.module


def test_modules_have_no_import_cycle():
    modules = {name_of(path): path for path in ROOT.rglob("*.py")}
    graph = {name: set(imported(path, modules)) for name, path in modules.items()}

    order = list(TopologicalSorter(graph).static_order())

    assert len(order) == len(modules) > 30
