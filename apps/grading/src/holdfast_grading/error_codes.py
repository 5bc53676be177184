"""The app's own error codes; those of fetching come from `holdfast.fetch`."""

from holdfast.errors import ErrorInfo

AUDIO_UNREADABLE = "AUDIO_UNREADABLE"
INVALID_SCHEMA = "INVALID_SCHEMA"
NO_SPEECH = "NO_SPEECH"
SPEAKING_OFF = "SPEAKING_OFF"
UNKNOWN_SKILL = "UNKNOWN_SKILL"
UNKNOWN_SUBMISSION = "UNKNOWN_SUBMISSION"

DECLARED = (
    ErrorInfo(AUDIO_UNREADABLE, "The audio cannot be decoded.", 415),
    ErrorInfo(INVALID_SCHEMA, "The message does not have the form that was agreed on.", 422),
    ErrorInfo(NO_SPEECH, "There is no speech in the recording.", 422),
    ErrorInfo(SPEAKING_OFF, "Speech cannot be graded here: STT_BASE_URL is not set.", 409),
    ErrorInfo(UNKNOWN_SKILL, "There is no such skill; choose writing or speaking.", 400),
    ErrorInfo(UNKNOWN_SUBMISSION, "There is no such submission.", 404),
)
