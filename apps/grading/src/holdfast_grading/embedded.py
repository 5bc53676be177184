"""Grading without a broker: the relay hands the messages to the engine, as jobs.

One job grades a request and answers with a callback; another one receives callbacks. An answer is
added to the outbox in the transaction that completes the job, so there is one for each request that
was graded, whenever a process dies.
"""

import asyncio
from random import Random

import msgspec

from holdfast import (
    Category,
    CircuitOpenError,
    Engine,
    ErrorCode,
    HoldfastError,
    JobContext,
    Permanent,
    categorize,
    diagnose,
    presets,
)
from holdfast.errors import ERRORS
from holdfast_grading.callbacks import receive
from holdfast_grading.error_codes import PROVIDER_FAILED, UNKNOWN_SUBMISSION
from holdfast_grading.graders.grading import grade
from holdfast_grading.graders.local_speech import TranscriberBusy
from holdfast_grading.graders.tools import GradingTools
from holdfast_grading.messages import (
    CALLBACK,
    REQUEST,
    GradingCallback,
    GradingRequest,
    completed,
    failed,
)
from holdfast_grading.submissions import Submissions, store_time
from holdfast_grading.tables import Status

POLICY = presets.GRADING
GRADING_SECONDS = 290.0
"""Seconds that one attempt may take: fetching, transcribing and grading."""
_SHORTEST_WAIT = 0.5
_BUSY_WAIT = 4.0
"""Seconds, and up to twice that, until a recording asks again for the transcriber."""


class GradingAttempt:
    """One attempt to grade the request in a job's arguments.

    Args:
        ctx: the job's.
        tools: of the worker.
        rng: spreads the requests that come back.
    """

    def __init__(self, ctx: JobContext, tools: GradingTools, rng: Random) -> None:
        self._ctx = ctx
        self._engine: Engine = ctx.engine
        self._tools = tools
        self._rng = rng

    async def run(self, body: object) -> str:
        """Grade, and send the callback; return what was done.

        Raises:
            Permanent: the request is not tried again: it is a dead letter.
            Exception: a failure after which it is.
        """
        request = GradingRequest.from_json(body)
        if reason := await self._not_wanted(request):
            return reason
        attempt = request.attempt + self._ctx.attempt - 1
        try:
            # Below the job's own limit, which would leave no time to send the callback.
            async with asyncio.timeout(GRADING_SECONDS):
                result = await grade(request, self._tools)
        except CircuitOpenError as error:
            return await self._come_back(request, attempt, error)
        except TranscriberBusy:
            return await self._wait_for_transcriber(request, attempt)
        except Exception as error:
            await self._count(request, attempt)
            if categorize(error) is Category.PERMANENT or attempt >= POLICY.max_attempts:
                raise await self._given_up(request, error) from error
            raise
        await self._count(request, attempt)
        async with self._ctx.transaction() as connection:
            await self._send(connection, completed(request, result))
        return "graded"

    async def _not_wanted(self, request: GradingRequest) -> str | None:
        """Return why a request is not graded; None if it is."""
        if request.is_expired(await store_time(self._engine)):
            return "expired"
        submission = await Submissions(self._engine).find(request.submission_id)
        if submission is None:
            line = f"there is no submission {request.submission_id}"
            raise Permanent(UNKNOWN_SUBMISSION, line)
        return "graded before" if submission.status is Status.COMPLETED else None

    async def _come_back(
        self, request: GradingRequest, attempt: int, error: CircuitOpenError
    ) -> str:
        """Say that the circuit is open, and let the same request come after the cooldown."""
        assert POLICY.breaker is not None
        cooldown, now = POLICY.breaker.open_for, self._engine.clock.wall()
        wait = cooldown if error.retry_at is None else max(_SHORTEST_WAIT, error.retry_at - now)
        # Spread, so that those who wait do not all come back at the same moment.
        delay = wait + self._rng.random() * cooldown / 3
        async with self._ctx.transaction() as connection:
            await self._send(connection, failed(request, error.code, str(error)))
            await self._ask_again(connection, request, attempt, delay)
        return "circuit open"

    async def _wait_for_transcriber(self, request: GradingRequest, attempt: int) -> str:
        """Let the same request come back soon; it takes no slot and no attempt meanwhile."""
        delay = _BUSY_WAIT * (1 + self._rng.random())
        async with self._ctx.transaction() as connection:
            await self._ask_again(connection, request, attempt, delay)
        return "transcriber busy"

    async def _ask_again(
        self, connection: object, request: GradingRequest, attempt: int, delay: float
    ) -> None:
        """Send the same request again, with the attempts that it has had."""
        again = msgspec.structs.replace(request, attempt=attempt)
        await self._engine.outbox.add(
            connection, request.submission_id, REQUEST, again.to_json(),
            headers={"owner": self._ctx.owner}, delay=delay,
        )  # fmt: skip

    async def _given_up(self, request: GradingRequest, error: Exception) -> Permanent:
        """Send the error to the submission, and return what makes the job a dead letter."""
        code, line = self._explained(error)
        async with self._engine.database.transaction() as tx:
            await self._send(tx.connection, failed(request, code, line))
        return Permanent(code, f"{line} ({type(error).__name__})")

    def _explained(self, error: Exception) -> tuple[str, str]:
        """Return the code and the line for people; what a provider said is for developers."""
        if isinstance(error, HoldfastError):
            return error.code, str(error)
        code = diagnose(error, wall_now=self._engine.clock.wall()).code
        if code == ErrorCode.UNKNOWN:
            code = PROVIDER_FAILED
        known = ERRORS.get(code)
        line = "The grader could not be reached, or gave no usable answer."
        return code, line if known is None else known.message

    async def _count(self, request: GradingRequest, attempt: int) -> None:
        await Submissions(self._engine).count_attempt(request.submission_id, attempt)

    async def _send(self, connection: object, callback: GradingCallback) -> None:
        await self._engine.outbox.add(
            connection, callback.submission_id, CALLBACK, callback.to_json()
        )


async def receive_callback(ctx: JobContext, body: object) -> str:
    """Handle the callback in a job's arguments; it was received when the job was enqueued.

    Raises:
        Permanent: it is not a callback, or its submission does not exist.
    """
    callback = GradingCallback.from_json(body)
    return await receive(ctx.engine, callback, ctx.slot.timestamp())
