"""Settings come from the environment, and a bad one is named."""

import pytest

from holdfast.settings import BadSetting
from holdfast_ingestion.app import create
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
