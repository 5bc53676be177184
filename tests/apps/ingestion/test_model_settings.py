"""Which models are set up."""

import pytest

from holdfast.settings import BadSetting, Environment
from holdfast_ingestion.model_settings import ModelSettings


def load(**values):
    return ModelSettings.load(Environment(values))


def test_without_settings_there_is_no_model_and_concepts_are_extracted():
    assert load() == ModelSettings(None, None, None, True)


def test_models_are_set_up_by_their_addresses_and_the_key():
    loaded = load(
        GEMINI_API_KEY=" secret ",
        GEMINI_BASE_URL="http://127.0.0.1:9/",
        CHATMOCK_BASE_URL="http://127.0.0.1:8/v1",
        INGESTION_CONCEPTS="0",
    )
    assert loaded == ModelSettings("secret", "http://127.0.0.1:9", "http://127.0.0.1:8/v1", False)
    assert "secret" not in repr(loaded)


@pytest.mark.parametrize("name", ["GEMINI_BASE_URL", "CHATMOCK_BASE_URL", "INGESTION_CONCEPTS"])
def test_a_bad_value_is_named(name):
    with pytest.raises(BadSetting, match=name):
        load(**{name: "nowhere"})
