"""The error for a missing SDK names the extra that brings it."""

import importlib

import pytest

from holdfast.providers.extras import from_extra


def test_a_missing_package_is_named_with_its_extra():
    with (
        pytest.raises(ImportError, match=r"no_such_sdk is missing: pip install 'holdfast\[some\]'"),
        from_extra("some", "no_such_sdk"),
    ):
        importlib.import_module("no_such_sdk")


def test_what_an_sdk_itself_lacks_is_not_hidden():
    with (
        pytest.raises(ModuleNotFoundError, match="No module named 'no_such_part'"),
        from_extra("some", "some_sdk"),
    ):
        importlib.import_module("no_such_part")
