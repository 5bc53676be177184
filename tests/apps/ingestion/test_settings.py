"""Settings come from the environment, and a bad one is named."""

import asyncio
import logging

import pytest
from tests.apps.ingestion.world import World

from holdfast.settings import BadSetting
from holdfast_ingestion.app import Ingestion, create
from holdfast_ingestion.settings import IngestionSettings


def test_the_defaults_are_the_seeds(tmp_path):
    settings = IngestionSettings.load({"HOLDFAST_DATA_DIR": str(tmp_path)})

    assert settings.files == tmp_path / "files"
    assert (settings.concurrency, settings.allow_private) == (3, False)
    kind = create({"HOLDFAST_DATA_DIR": str(tmp_path)}).process.kind
    assert (kind.policy.max_attempts, kind.concurrency) == (3, 3)
    assert [kind.policy.backoff.nominal(number) for number in (1, 2)] == [2.0, 4.0]


@pytest.mark.parametrize(
    "name, value",
    [
        ("FETCH_ALLOW_PRIVATE", "yes"),
        ("INGESTION_CONCURRENCY", "0"),
        ("INGESTION_MAX_BYTES", "many"),
        ("INGESTION_FETCH_TIMEOUT", "-1"),
    ],
)
def test_a_bad_value_is_named(name, value):
    with pytest.raises(BadSetting, match=name):
        IngestionSettings.load({name: value})


@pytest.mark.parametrize("allowed", [True, False])
def test_a_server_that_may_reach_private_addresses_says_so(sqlite_url, tmp_path, caplog, allowed):
    settings = IngestionSettings(files=tmp_path / "files", allow_private=allowed)

    async def scenario():
        async with World(sqlite_url, tmp_path, app=Ingestion(settings)) as world:
            body = {"url": "http://127.0.0.1:8080/"}
            return (await world.client.post("/v3/documents", json=body)).status_code

    with caplog.at_level(logging.WARNING, "holdfast.ingestion"):
        assert asyncio.run(scenario()) == (202 if allowed else 422)
    assert ("FETCH_ALLOW_PRIVATE=1" in caplog.text) is allowed
