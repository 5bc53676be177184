"""The app's own error codes; those of fetching come from `holdfast.fetch`."""

from holdfast.errors import Category, ErrorInfo

AUDIO_UNREADABLE = "AUDIO_UNREADABLE"
INVALID_SCHEMA = "INVALID_SCHEMA"
NO_SPEECH = "NO_SPEECH"
PROVIDER_FAILED = "PROVIDER_FAILED"
PROVIDER_MISCONFIGURED = "PROVIDER_MISCONFIGURED"
SPEAKING_OFF = "SPEAKING_OFF"
UNKNOWN_REQUEST = "UNKNOWN_REQUEST"
UNKNOWN_SKILL = "UNKNOWN_SKILL"
TEXT_EMPTY = "TEXT_EMPTY"
TEXT_TOO_LONG = "TEXT_TOO_LONG"
UNKNOWN_SUBMISSION = "UNKNOWN_SUBMISSION"

SPEAKING_OFF_LINE = "Speech cannot be graded here: there is neither STT_BASE_URL nor a local model."

DECLARED = (
    ErrorInfo(AUDIO_UNREADABLE, "The audio cannot be decoded.", 415),
    ErrorInfo(INVALID_SCHEMA, "The message does not have the form that was agreed on.", 422),
    ErrorInfo(NO_SPEECH, "There is no speech in the recording.", 422),
    ErrorInfo(PROVIDER_FAILED, "The grader could not be reached.", 502),
    ErrorInfo(
        PROVIDER_MISCONFIGURED,
        "The grader refuses its key, or is not at its address.",
        502,
        Category.TRANSIENT,
    ),
    ErrorInfo(SPEAKING_OFF, SPEAKING_OFF_LINE, 409),
    ErrorInfo(TEXT_EMPTY, "The text is empty.", 400),
    ErrorInfo(TEXT_TOO_LONG, "The text is longer than what is graded.", 413),
    ErrorInfo(UNKNOWN_REQUEST, "There is no such request for this submission.", 404),
    ErrorInfo(UNKNOWN_SKILL, "There is no such skill; choose writing or speaking.", 400),
    ErrorInfo(UNKNOWN_SUBMISSION, "There is no such submission.", 404),
)
