"""`resilience` and the modules below it import only the standard library."""

import ast
import sys

ROOMS = ("resilience/",)
LEAVES = ("errors.py", "clock.py", "cutoff.py", "events.py", "time_limit.py")
ALLOWED = sys.stdlib_module_names | {"holdfast"}


def test_resilience_and_the_leaves_import_the_standard_library_only(shipped):
    found = {
        path: foreign
        for path, tree in shipped.items()
        if (path.startswith(ROOMS) or path in LEAVES) and (foreign := foreign_imports(tree))
    }
    assert found == {}


def test_the_check_sees_an_import_inside_a_function_and_under_type_checking():
    source = "def f():\n    import httpx.auth\nif TYPE_CHECKING:\n    from apsw import Connection\n"
    assert foreign_imports(ast.parse(source)) == ["apsw", "httpx"]


def foreign_imports(tree: ast.Module) -> list[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return sorted({name.partition(".")[0] for name in names} - ALLOWED)
