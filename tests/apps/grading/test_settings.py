"""How grading is set up, and values that stop the start."""

import pytest

from holdfast.settings import BadSetting
from holdfast_grading.app import create
from holdfast_grading.graders.local_speech import model_folder
from holdfast_grading.messages import Skill
from holdfast_grading.settings import GradingSettings


def test_without_settings_the_deadlines_are_20_and_60_minutes():
    settings = GradingSettings.load({})
    assert settings.seconds_for(Skill.WRITING) == 20 * 60
    assert settings.seconds_for(Skill.SPEAKING) == 60 * 60
    assert settings.check_seconds == 60


def test_speech_is_transcribed_here_where_no_other_place_is_set_up():
    here = GradingSettings.load({})
    assert here.speech_model == model_folder()
    assert here.grades_speech == (here.speech_model is not None)
    for name, value, graded in (
        ("STT_LOCAL", "0", False),
        ("STT_BASE_URL", "http://127.0.0.1:9/v1", True),
        ("RABBITMQ_URL", "amqp://127.0.0.1", False),
    ):
        elsewhere = GradingSettings.load({name: value})
        assert elsewhere.speech_model is None
        assert elsewhere.grades_speech is graded


def test_settings_are_read_from_the_environment(tmp_path):
    settings = create(
        {
            "HOLDFAST_DATA_DIR": str(tmp_path),
            "SLA_WRITING_MS": "5000",
            "SLA_SPEAKING_MS": "6000",
            "TIMEOUT_CHECK_INTERVAL_MS": "2000",
            "STT_BASE_URL": "http://127.0.0.1:9/v1/",
            "CHATMOCK_BASE_URL": "http://127.0.0.1:8/v1",
            "GEMINI_API_KEY": "secret",
            "GEMINI_BASE_URL": "http://127.0.0.1:7",
        }
    ).settings
    assert (settings.writing_seconds, settings.speaking_seconds) == (5.0, 6.0)
    assert settings.check_seconds == 2.0
    assert settings.stt_base_url == "http://127.0.0.1:9/v1"
    assert settings.chatmock_base_url == "http://127.0.0.1:8/v1"
    assert settings.files == tmp_path / "files"
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    "name, value",
    [
        ("SLA_WRITING_MS", "soon"),
        ("SLA_SPEAKING_MS", "0"),
        ("SLA_SPEAKING_MS", "432000001"),
        ("TIMEOUT_CHECK_INTERVAL_MS", "10"),
        ("STT_BASE_URL", "localhost"),
        ("STT_LOCAL", "yes"),
    ],
)
def test_a_bad_value_stops_the_start_with_a_line_that_names_it(name, value):
    with pytest.raises(BadSetting, match=name):
        create({name: value})
