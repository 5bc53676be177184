"""Submissions and messages that the tests of grading use."""

from holdfast import App, AppTables, Engine
from holdfast_grading.graders.rubric import CriterionScore, graded
from holdfast_grading.messages import Skill, SubmissionPayload
from holdfast_grading.submissions import NewSubmission

ESSAY = "Cities should plant more trees. They cool the streets, and people walk more."
RESULT = graded([CriterionScore("task", 8.0), CriterionScore("grammar", 6.0)], "Good.", "offline")


def new_submission(owner="ann", *, skill=Skill.WRITING, seconds=1200.0, **fields):
    payload = fields.pop("payload", SubmissionPayload(text=ESSAY))
    return NewSubmission(owner, "local", skill, payload, seconds, **fields)


def grading_engine(url, *, clock=None):
    """Return an engine that has the tables of grading, and none of its jobs."""
    options = {} if clock is None else {"clock": clock}
    return Engine(url, apps=[App("grading", tables=AppTables("holdfast_grading"))], **options)


class Publisher:
    """Takes messages, and keeps their bodies."""

    def __init__(self):
        self.published = []

    async def open(self): ...

    async def close(self): ...

    async def publish(self, message):
        self.published.append(message)


async def publish(engine):
    """Publish what is in the outbox; return the messages."""
    publisher = Publisher()
    await engine.relay(publisher).run(until_idle=True)
    return publisher.published
