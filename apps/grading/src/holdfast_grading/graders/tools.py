"""What graders share in one process: the clients of providers, and the breakers before them."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Self, TypeVar

from holdfast import Clock, HoldfastError, SharedRate, presets
from holdfast.fetch import Fetcher
from holdfast.files import ArtifactStore
from holdfast.providers import is_setup_error
from holdfast_grading.error_codes import PROVIDER_MISCONFIGURED
from holdfast_grading.graders.audio import Recording
from holdfast_grading.graders.audio_decoder import AudioDecoder
from holdfast_grading.graders.language_models import ChatMockGrader, GeminiGrader, TextGrader
from holdfast_grading.graders.local_speech import LocalTranscriber
from holdfast_grading.graders.offline import grade_offline
from holdfast_grading.graders.rubric import GradingResult
from holdfast_grading.graders.speech import Transcriber, audio_of
from holdfast_grading.messages import GradingRequest, Skill
from holdfast_grading.settings import GradingSettings

LLM = "llm"
STT = "stt"
"""The downstreams: the model that grades, and the service that turns speech into text."""
RATE_NAME = "gemini"
"""The account's, which other apps use too."""

_NAMES = {LLM: "language model", STT: "speech-to-text service"}

T = TypeVar("T")


class ProviderMisconfigured(HoldfastError):
    """Report a provider that refuses every request of ours; no submission is to blame."""

    code = PROVIDER_MISCONFIGURED


class Calls(Protocol):
    """Makes one call to a downstream under its breaker; `engine.calls` is one."""

    async def run(self, name: str, operation: Callable[[], Awaitable[T]]) -> T:
        """Return what `operation` returns, or refuse it with `CircuitOpenError`."""
        ...


class GradingTools:
    """The clients of the providers, as `settings` name them; an async context manager.

    Args:
        settings: which providers there are.
        calls: the breakers.
        shared_rate: `engine.shared_rate`, for the rate of the Gemini API.
        fetcher: fetches recordings.
        clock: where time comes from.
    """

    def __init__(
        self,
        settings: GradingSettings,
        calls: Calls,
        shared_rate: Callable[..., SharedRate],
        fetcher: Fetcher,
        clock: Clock,
    ) -> None:
        self._calls = calls
        self._fetcher = fetcher
        self._files = ArtifactStore(settings.files)
        self._decoder = AudioDecoder(clock)
        self._grader = _text_grader(settings, shared_rate, clock)
        url = settings.stt_base_url
        self._transcriber = None if url is None else Transcriber(url)
        model = settings.speech_model
        self._local_transcriber = None if model is None else LocalTranscriber(model, clock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the clients and the fetcher, and end the child processes."""
        for each in (
            self._grader, self._transcriber, self._local_transcriber, self._fetcher, self._decoder,
        ):  # fmt: skip
            if each is not None:
                await each.aclose()

    @property
    def downstreams(self) -> tuple[str, ...]:
        """The downstreams that are called."""
        called = ((LLM, self._grader), (STT, self._transcriber))
        return tuple(name for name, client in called if client is not None)

    @property
    def transcribes(self) -> bool:
        """Whether speech can be turned into text."""
        return self._transcriber is not None or self.transcribes_locally

    @property
    def transcribes_locally(self) -> bool:
        """Whether that is done on this machine."""
        return self._local_transcriber is not None

    async def recording(self, request: GradingRequest) -> Recording:
        """Return the recording of a request; see `audio_of` and `AudioDecoder.decode`."""
        return await self._decoder.decode(
            await audio_of(request.payload, self._fetcher, self._files)
        )

    async def transcribe(self, recording: Recording, request_id: str) -> str:
        """Return what was said; see `Transcriber.transcribe` and `LocalTranscriber.transcribe`.

        Raises:
            CircuitOpenError: the breaker refuses the call.
        """
        if self._local_transcriber is not None:
            return await self._local_transcriber.transcribe(recording)
        transcriber = self._transcriber
        assert transcriber is not None  # the caller has asked `transcribes`
        # Not the key of the grade: both may be calls to one server, which must not mix them up.
        key = f"{request_id}.{STT}"
        return await self._run(STT, lambda: transcriber.transcribe(recording, key))

    async def grade_text(
        self, skill: Skill, text: str, request_id: str, seconds: float | None = None
    ) -> GradingResult:
        """Return the grade of a text, or of the transcript of `seconds` of speech.

        Raises:
            CircuitOpenError: the breaker refuses the call.
            Exception: the error that ended the call.
        """
        grader = self._grader
        if grader is None:
            return grade_offline(skill, text, seconds)
        return await self._run(LLM, lambda: grader.grade(skill, text, request_id))

    async def _run(self, name: str, operation: Callable[[], Awaitable[T]]) -> T:
        """Call a downstream; its breaker counts that it is set up wrongly as any other outage."""

        async def call() -> T:
            try:
                return await operation()
            except Exception as error:
                if is_setup_error(error):
                    line = f"The {_NAMES[name]} refuses its key, or is not at its address."
                    raise ProviderMisconfigured(line) from error
                raise

        return await self._calls.run(name, call)


def _text_grader(
    settings: GradingSettings, shared_rate: Callable[..., SharedRate], clock: Clock
) -> TextGrader | None:
    if settings.chatmock_base_url is not None:
        return ChatMockGrader(settings.chatmock_base_url, clock)
    if settings.gemini_api_key is not None:
        rate: Any = presets.GEMINI_API.rate
        return GeminiGrader(
            settings.gemini_api_key, settings.gemini_base_url, shared_rate(RATE_NAME, rate), clock
        )
    return None
