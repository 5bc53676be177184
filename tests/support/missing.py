"""Requirements of tests that are missing on this machine."""

import os
from typing import NoReturn

import pytest


def do_without(reason: object) -> NoReturn:
    """Skip the test, which the summary of the run reports; with CI=true, fail it."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI must not skip: {reason}")
    pytest.skip(str(reason))
