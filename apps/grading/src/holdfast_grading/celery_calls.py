"""Grading requests as calls of Celery tasks, in the message protocol that Celery documents.

The outbox keeps a request in one form, the contract's. Where there is a broker, the relay turns it
into a call as it publishes it, so that a server needs no Celery, and requests that were accepted
before the broker was set up are graded too.
"""

import json
from dataclasses import replace

from holdfast.http import MessageQueue
from holdfast.outbox import MessageClaim
from holdfast_grading.messages import CALLBACK, DEAD_LETTERS, REQUEST, Skill

GRADE = "holdfast_grading.grade"
"""The task that grades a text; for speech, the transcript."""
TRANSCRIBE = "holdfast_grading.transcribe"
"""The task that turns speech into the text that is graded after it."""

_EMBEDDED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def as_call(message: MessageClaim) -> MessageClaim:
    """Return a message of the outbox as the call of a task; the request is its keyword arguments.

    A message that a worker has written, such as a retry, is a call already.
    """
    headers = {} if message.headers is None else json.loads(message.headers)
    if "task" in headers:
        return message
    request = json.loads(message.payload)
    skill = request.get("skill") if isinstance(request, dict) else None
    task = TRANSCRIBE if skill == Skill.SPEAKING else GRADE
    own = {
        "lang": "py",
        "task": task,
        "id": message.id,
        "root_id": message.id,
        "parent_id": None,
        "group": None,
        "correlation_id": message.id,
    }
    return replace(
        message,
        payload=json.dumps([[], request, _EMBEDDED]),
        headers=json.dumps({**headers, **own}),
    )


QUEUES = (
    MessageQueue(REQUEST, dead_letter_to=DEAD_LETTERS, form=as_call),
    MessageQueue(CALLBACK, dead_letter_to=DEAD_LETTERS),
)
"""The queues that the relay declares."""
