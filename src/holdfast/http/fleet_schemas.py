"""What the routes about the whole fleet answer with."""

from enum import StrEnum

from holdfast.http.schemas import Model, Moment


class PauseMove(StrEnum):
    """What may be done to a queue or a kind."""

    PAUSE = "pause"
    RESUME = "resume"


class PauseOut(Model):
    """A queue or a kind, and how many of its jobs are unfinished."""

    name: str
    paused: bool
    paused_at: Moment | None
    scheduled: int
    ready: int
    processing: int


class QueuesAnswer(Model):
    """All queues, by name."""

    queues: list[PauseOut]


class QueueAnswer(Model):
    """One queue."""

    queue: PauseOut


class KindsAnswer(Model):
    """All kinds, by name."""

    kinds: list[PauseOut]


class KindAnswer(Model):
    """One kind."""

    kind: PauseOut


class WorkerOut(Model):
    """A worker that is alive or has jobs.

    `attempts_lately` are those that it ended in the last five minutes, `busy_seconds_lately` is how
    long these ran together.
    """

    id: str
    running: int
    finish_requested_at: Moment | None
    registered_at: Moment | None
    attempts_lately: int = 0
    busy_seconds_lately: float = 0.0


class WorkersAnswer(Model):
    """All workers, by id."""

    workers: list[WorkerOut]


class WorkerAnswer(Model):
    """One worker."""

    worker: WorkerOut
