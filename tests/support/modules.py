"""Import modules anew in a test, as where a library that they need is missing."""

import sys

import pytest


def forget_modules(monkeypatch: pytest.MonkeyPatch, *prefixes: str) -> None:
    """Let all modules whose names begin so be imported anew until the test ends.

    Those from before are put back then, in their packages too: an import that fails half-way leaves
    its own there.
    """
    forgotten = {name: it for name, it in sys.modules.items() if name.startswith(prefixes)}
    for name, module in forgotten.items():
        package, _, last = name.rpartition(".")
        if hasattr(sys.modules.get(package), last):
            monkeypatch.setattr(sys.modules[package], last, module)
    for name in forgotten:
        monkeypatch.delitem(sys.modules, name)
