"""The conversion service in its real processes, on each store in turn."""

import pytest
from tests.acceptance.house import House
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
)
from tests.support.stores import new_database  # noqa: F401

from holdfast.testing.downstream import ScriptedDownstream


@pytest.fixture(scope="module")
def gateway():
    """A gateway that does as it is told."""
    with ScriptedDownstream() as server:
        yield server


@pytest.fixture(scope="module")
def build_house(new_database, tmp_path_factory):  # noqa: F811
    """A function that returns a house with a store and settings of its own, not yet opened."""

    def build(**settings):
        return House(tmp_path_factory.mktemp("house"), **new_database(), **settings)

    return build
