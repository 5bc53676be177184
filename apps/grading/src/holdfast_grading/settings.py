"""How the grading app is set up, from the environment. Times are seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.settings import BadSetting, Environment, Settings
from holdfast_grading.graders.local_speech import model_folder
from holdfast_grading.messages import Skill

MEBIBYTE = 1024 * 1024
MOST_CHARACTERS = 20_000
"""The longest text that is graded."""
_LONGEST_SLA = 5 * 86_400.0
"""Seconds. Published messages, which say that a submission is being processed, are kept longer."""


@dataclass(frozen=True, slots=True)
class GradingSettings:
    """How submissions are taken in and graded.

    Args:
        files: the folder for recordings.
        writing_seconds: in which a text must be graded.
        speaking_seconds: in which speech must be graded.
        check_seconds: between two looks for submissions past their deadline.
        max_audio_bytes: the largest recording.
        allow_private: fetch from any address, this machine included; for development.
        broker_url: the RabbitMQ that takes requests to Celery workers; without it they are jobs.
        stt_base_url: speech to text, OpenAI-compatible.
        speech_model: the folder of the model that transcribes on this machine; None where there is
            an `stt_base_url` or a broker. Without any of these speech is refused.
        chatmock_base_url: the language model, OpenAI-compatible.
        gemini_api_key: the key of the Gemini API, used where there is no `chatmock_base_url`;
            without either, grading is offline.
        gemini_base_url: where that API is; by default Google's own address.
    """

    files: Path
    writing_seconds: float = 20 * 60.0
    speaking_seconds: float = 60 * 60.0
    check_seconds: float = 60.0
    max_audio_bytes: int = 20 * MEBIBYTE
    allow_private: bool = False
    broker_url: str | None = field(default=None, repr=False)
    stt_base_url: str | None = None
    speech_model: Path | None = None
    chatmock_base_url: str | None = None
    gemini_api_key: str | None = field(default=None, repr=False)
    gemini_base_url: str | None = None

    @classmethod
    def load(cls, values: Mapping[str, str]) -> "GradingSettings":
        """Read them.

        Raises:
            BadSetting: a value cannot be used.
        """
        read = Environment(values)
        defaults = cls(files=Settings.load(read).data_dir / "files")
        return replace(
            defaults,
            writing_seconds=_sla(read, "SLA_WRITING_MS", defaults.writing_seconds),
            speaking_seconds=_sla(read, "SLA_SPEAKING_MS", defaults.speaking_seconds),
            check_seconds=read.seconds(
                "TIMEOUT_CHECK_INTERVAL_MS", defaults.check_seconds, at_least_ms=1000
            ),
            allow_private=read.choice("FETCH_ALLOW_PRIVATE", "0", ("0", "1")) == "1",
            broker_url=read.text("RABBITMQ_URL"),
            stt_base_url=read.address("STT_BASE_URL"),
            speech_model=_speech_model(read),
            chatmock_base_url=read.address("CHATMOCK_BASE_URL"),
            gemini_api_key=read.text("GEMINI_API_KEY"),
            gemini_base_url=read.address("GEMINI_BASE_URL"),
        )

    @property
    def grades_speech(self) -> bool:
        """Whether speech can be graded."""
        return self.stt_base_url is not None or self.speech_model is not None

    def seconds_for(self, skill: Skill) -> float:
        """Return in how many seconds a submission of `skill` must be graded."""
        return self.writing_seconds if skill is Skill.WRITING else self.speaking_seconds


def _speech_model(read: Environment) -> Path | None:
    wanted = read.choice("STT_LOCAL", "1", ("0", "1")) == "1"
    elsewhere = read.address("STT_BASE_URL") or read.text("RABBITMQ_URL")
    return model_folder() if wanted and elsewhere is None else None


def _sla(read: Environment, name: str, default: float) -> float:
    seconds = read.seconds(name, default)
    if seconds > _LONGEST_SLA:
        raise BadSetting(
            f"{name} must be at most {_LONGEST_SLA * 1000:.0f}, got {seconds * 1000:.0f}"
        )
    return seconds
