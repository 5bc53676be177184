"""Addresses: a child finds a kind in its module, in its script, and nowhere else."""

import sys
import types
from dataclasses import replace

import pytest
from tests.support import isolated

from holdfast.jobs.worker.isolation.address import Address, address_of, find_in, load_kind

PID = isolated.pid.kind


def as_main(monkeypatch, **attributes):
    main = types.ModuleType("__main__")
    main.pid = isolated.pid
    main.__spec__ = None
    for name, value in attributes.items():
        setattr(main, name, value)
    monkeypatch.setitem(sys.modules, "__main__", main)

    def pid(ctx): ...

    pid.__module__ = "__main__"
    return replace(PID, handler=replace(PID.handler, function=pid))


def test_a_kind_is_found_by_its_module():
    address = address_of(PID)
    assert address == Address("values.pid", "tests.support.isolated")
    assert load_kind(address) is PID


def test_a_kind_is_found_as_itself_by_its_function_and_by_its_app():
    for value in (PID, isolated.pid, isolated.values_app):
        assert find_in({"x": 1, "a class": object, "it": value}, "values.pid") is PID
    assert find_in({"app": isolated.values_app, "pid": isolated.pid}, "values.unknown") is None


def test_a_module_without_the_kind_is_an_error():
    with pytest.raises(LookupError, match="does not declare"):
        load_kind(Address("values.unknown", "tests.support.isolated"))


def test_a_kind_of_a_program_that_runs_as_a_module_is_found_by_that_name(monkeypatch):
    spec = types.SimpleNamespace(name="package.program")
    kind = as_main(monkeypatch, __spec__=spec)
    assert address_of(kind) == Address("values.pid", "package.program")


def test_a_kind_of_a_script_is_found_by_its_path(monkeypatch, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from holdfast.jobs.declare.app import App\n"
        "app = App('values')\n"
        "@app.job(isolation='process')\n"
        "def pid(ctx): ...\n"
        "assert __name__ != '__main__'\n",
        "ascii",
    )
    address = address_of(as_main(monkeypatch, __file__=str(script)))
    assert address == Address("values.pid", None, str(script))
    assert load_kind(address).name == "values.pid"


def test_code_from_a_prompt_cannot_be_found(monkeypatch):
    kind = as_main(monkeypatch)
    with pytest.raises(ValueError, match="put it in a file"):
        address_of(kind)
