"""Grade one request."""

import msgspec

from holdfast import Permanent
from holdfast_grading.error_codes import INVALID_SCHEMA, SPEAKING_OFF, SPEAKING_OFF_LINE
from holdfast_grading.graders.local_speech import NOTE
from holdfast_grading.graders.rubric import GradingResult
from holdfast_grading.graders.tools import GradingTools
from holdfast_grading.messages import GradingRequest, Skill


async def grade(request: GradingRequest, tools: GradingTools) -> GradingResult:
    """Return the grade of a request's submission; its id makes the providers' idempotency keys.

    Raises:
        CircuitOpenError: a provider's breaker refuses the call.
        Permanent: it cannot be graded.
        Exception: the error of a provider, or of the site that has the recording.
    """
    if request.skill is Skill.WRITING:
        text = request.payload.text
        if text is None:
            raise Permanent(INVALID_SCHEMA, "a request for writing has no text")
        return await tools.grade_text(request.skill, text, request.request_id)
    if not tools.transcribes:
        raise Permanent(SPEAKING_OFF, SPEAKING_OFF_LINE)
    recording = await tools.recording(request)
    transcript = await tools.transcribe(recording, request.request_id)
    result = await tools.grade_text(
        request.skill, transcript, request.request_id, recording.seconds
    )
    feedback = f"{result.feedback} {NOTE}" if tools.transcribes_locally else result.feedback
    return msgspec.structs.replace(result, transcript=transcript, feedback=feedback)
