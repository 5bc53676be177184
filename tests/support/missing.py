"""What a test needs and this machine cannot get."""

import os
from typing import NoReturn

import pytest


def do_without(reason: object) -> NoReturn:
    """Skip the test, which the closing lines of the run then say; with CI=true, fail it."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"CI must not skip: {reason}")
    pytest.skip(str(reason))
