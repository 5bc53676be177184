"""Graders that ask a language model, with no retries of their own: the request's are the job's."""

from dataclasses import replace
from typing import Protocol

import msgspec

from holdfast import Clock, RetryService, SharedRate, presets
from holdfast.providers import ChatMockClient, GeminiClient
from holdfast_grading.graders.answer import answer_type, instructions, quoted, result_of
from holdfast_grading.graders.rubric import GradingResult
from holdfast_grading.messages import Skill

CHATMOCK = "chatmock"
GEMINI = "gemini"


class TextGrader(Protocol):
    """Grades texts."""

    async def grade(self, skill: Skill, text: str, request_id: str) -> GradingResult:
        """Return the grade; `request_id` is sent to the provider as the idempotency key.

        Raises:
            Exception: the error that ended the call.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


class ChatMockGrader:
    """Grade by an OpenAI-compatible server at `base_url`."""

    def __init__(self, base_url: str, clock: Clock) -> None:
        policy = replace(presets.CHATMOCK_API, max_attempts=1, breaker=None)
        self._client = ChatMockClient(base_url, service=RetryService(clock=clock), policy=policy)

    async def grade(self, skill: Skill, text: str, request_id: str) -> GradingResult:
        """See `TextGrader`."""
        messages = [
            {"role": "system", "content": instructions(skill)},
            {"role": "user", "content": quoted(text)},
        ]
        answer = await self._client.chat_json(
            messages, answer_type(skill), idempotency_key=request_id
        )
        return result_of(answer.unwrap(), CHATMOCK)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()


class GeminiGrader:
    """Grade by the Gemini API.

    Args:
        api_key: its key.
        base_url: where it is; by default Google's own address.
        rate: counts the calls of all processes.
    """

    def __init__(self, api_key: str, base_url: str | None, rate: SharedRate, clock: Clock) -> None:
        policy = replace(presets.GEMINI_API, max_attempts=1, breaker=None)
        service = RetryService(clock=clock)
        self._client = GeminiClient(
            api_key, base_url=base_url, service=service, policy=policy, rate=rate
        )

    async def grade(self, skill: Skill, text: str, request_id: str) -> GradingResult:
        """See `TextGrader`."""
        wanted = answer_type(skill)
        answer = await self._client.generate(
            quoted(text), system=instructions(skill), schema=wanted, idempotency_key=request_id
        )
        return result_of(msgspec.json.decode(answer.unwrap(), type=wanted), GEMINI)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()
