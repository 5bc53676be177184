"""The providers of a Celery worker: opened in each thread at their first use, after a fork."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import msgspec

from holdfast import BreakerPolicy, Permanent, SharedRate, SystemClock
from holdfast.fetch import Fetcher, FetchLimits
from holdfast_grading.error_codes import INVALID_SCHEMA, SPEAKING_OFF
from holdfast_grading.graders.rubric import GradingResult
from holdfast_grading.graders.tools import LLM, STT, Calls, GradingTools
from holdfast_grading.messages import GradingRequest, Skill, SubmissionPayload
from holdfast_grading.settings import GradingSettings

T = TypeVar("T")


class TaskCalls:
    """Calls of a task, under the breakers that the process's engine shares with the fleet.

    Args:
        engine: returns the blocking engine of the process.
        breaker: of each downstream.
    """

    def __init__(self, engine: Callable[[], Any], breaker: BreakerPolicy) -> None:
        self._engine = engine
        self._breaker = breaker
        self._declared: set[str] = set()

    async def run(self, name: str, operation: Callable[[], Awaitable[T]]) -> T:
        """See `Calls.run`."""
        own = asyncio.get_running_loop()

        async def operate() -> T:
            return await operation()

        async def call() -> T:
            # The engine awaits it in a loop of its own, and the clients belong to the task's.
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(operate(), own))

        return await asyncio.to_thread(self._admitted, name, call)

    def _admitted(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        calls = self._engine().calls
        if name not in self._declared:
            calls.declare(name, self._breaker)
            self._declared.add(name)
        answer: T = calls.run(name, call)
        return answer


class TaskProviders:
    """Grade and transcribe in the calling thread, which waits.

    Args:
        settings: which providers there are.
        calls: the breakers.
        shared_rate: `engine.shared_rate` of the process's engine.
    """

    def __init__(
        self, settings: GradingSettings, calls: Calls, shared_rate: Callable[..., SharedRate]
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._shared_rate = shared_rate
        self._of_thread = threading.local()

    def grade(self, request: GradingRequest) -> GradingResult:
        """Return the grade of a text, or of the transcript that `transcribe` has made.

        Raises:
            CircuitOpenError: the breaker refuses the call.
            Permanent: `INVALID_SCHEMA`: there is no text.
            Exception: the error that ended the call.
        """
        text = request.payload.text
        if text is None:
            raise Permanent(INVALID_SCHEMA, f"a request to grade {request.skill} has no text")
        grading = self._tools().grade_text(request.skill, text, request.request_id)
        result: GradingResult = self._run(grading)
        if request.skill is Skill.WRITING:
            return result
        return msgspec.structs.replace(result, transcript=text)

    def transcribe(self, request: GradingRequest) -> GradingRequest:
        """Return the request to grade what was said.

        Raises:
            CircuitOpenError: the breaker refuses the call.
            Permanent: it cannot be understood, or speech is not graded here.
            Exception: the error that ended the call.
        """
        tools = self._tools()
        if not {STT, LLM} <= set(tools.downstreams):
            raise Permanent(SPEAKING_OFF, "Speech needs STT_BASE_URL and a language model.")

        async def listen() -> str:
            return await tools.transcribe(await tools.recording(request), request.request_id)

        payload = SubmissionPayload(text=self._run(listen()))
        return msgspec.structs.replace(request, payload=payload)

    def close(self) -> None:
        """Close those of the calling thread."""
        if self._of_thread.__dict__:
            self._run(self._of_thread.opened.aclose())
            self._of_thread.runner.close()
            self._of_thread.__dict__.clear()

    def _run(self, work: Any) -> Any:
        return self._of_thread.runner.run(work)

    def _tools(self) -> GradingTools:
        found: GradingTools | None = getattr(self._of_thread, "tools", None)
        if found is None:
            self._of_thread.runner = asyncio.Runner()
            self._of_thread.opened = AsyncExitStack()
            self._of_thread.tools = found = self._run(self._open(self._of_thread.opened))
        return found

    async def _open(self, opened: AsyncExitStack) -> GradingTools:
        settings = self._settings
        limits = FetchLimits(max_bytes=settings.max_audio_bytes)
        fetcher = Fetcher(limits, allow_private=settings.allow_private)
        await opened.enter_async_context(fetcher)
        tools = GradingTools(settings, self._calls, self._shared_rate, fetcher, SystemClock())
        return await opened.enter_async_context(tools)
