"""The relay of a command: its options, and where its messages go."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from holdfast import bootstrap
from holdfast.cli.usage import UsageError
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.outbox import MessageClaim, Publisher, Relay, RelayOptions
from holdfast.settings import Environment

if TYPE_CHECKING:
    from holdfast.http import MessageQueue, ServedApp
    from holdfast.messaging import DeadLetterQueue, QueueSpec

BROKER = "RABBITMQ_URL"
"""The setting that names the broker."""


def relay_options(environment: Environment) -> RelayOptions:
    """Return how a relay is to work.

    Raises:
        BadSetting: a value cannot be used.
    """
    defaults = RelayOptions()
    return RelayOptions(
        poll_interval=environment.seconds("OUTBOX_POLL_INTERVAL_MS", defaults.poll_interval),
        batch_size=environment.whole("OUTBOX_BATCH_SIZE", defaults.batch_size, at_most=10_000),
        stale_after=environment.seconds("OUTBOX_STALE_THRESHOLD_MS", defaults.stale_after),
    )


def make_relay(
    environment: Environment,
    engine: bootstrap.Engine,
    apps: Iterable[Union[App, "ServedApp"]],
) -> Relay | None:
    """Return a relay to the broker in the settings, else to jobs of `apps`; None without either.

    Raises:
        BadSetting: a setting cannot be used.
        PublisherMisconfigured: the broker's address cannot be one.
        UsageError: two apps take messages of one type.
    """
    options, publisher = relay_options(environment), _publisher(environment, engine, apps)
    return None if publisher is None else engine.relay(publisher, options)


def dead_letter_queues(environment: Environment) -> "Callable[[str], DeadLetterQueue] | None":
    """Return what opens a queue of the broker in the settings by its name; None without one."""
    from holdfast.messaging import DeadLetterQueue

    url = environment.text(BROKER)
    return None if url is None else lambda queue: DeadLetterQueue(url, queue)


def _publisher(
    environment: Environment,
    engine: bootstrap.Engine,
    apps: Iterable[Union[App, "ServedApp"]],
) -> Publisher | None:
    from holdfast.messaging import JobPublisher, RabbitPublisher

    url = environment.text(BROKER)
    if url is not None:
        queues = _message_queues(apps)
        return FormingPublisher(RabbitPublisher(url, _declared(queues)), queues)
    jobs = _message_jobs(apps)
    return JobPublisher(engine, jobs) if jobs else None


def _message_jobs(
    apps: Iterable[Union[App, "ServedApp"]],
) -> Mapping[str, JobFunction[Any, Any] | str]:
    jobs: dict[str, JobFunction[Any, Any] | str] = {}
    for app in apps:
        if isinstance(app, App):
            continue
        for message_type, job in app.message_jobs.items():
            if message_type in jobs:
                raise UsageError(f"two apps take messages of type {message_type!r}")
            jobs[message_type] = job
    return jobs


def _message_queues(apps: Iterable[Union[App, "ServedApp"]]) -> "dict[str, MessageQueue]":
    queues: dict[str, MessageQueue] = {}
    for app in apps:
        for queue in () if isinstance(app, App) else app.message_queues:
            if queue.name in queues:
                raise UsageError(f"two apps declare the queue {queue.name!r}")
            queues[queue.name] = queue
    return queues


def _declared(queues: "Mapping[str, MessageQueue]") -> "list[QueueSpec]":
    """Return the specs of `queues`, after those of the dead letters that they lead to."""
    from holdfast.messaging import QueueSpec

    dead = {queue.dead_letter_to for queue in queues.values() if queue.dead_letter_to}
    return [
        *(QueueSpec(name) for name in sorted(dead - queues.keys())),
        *(QueueSpec(each.name, dead_letter_to=each.dead_letter_to) for each in queues.values()),
    ]


class FormingPublisher:
    """Implements `Publisher`: hands messages on in the form that their queue's consumers take."""

    def __init__(self, publisher: Publisher, queues: "Mapping[str, MessageQueue]") -> None:
        self._publisher = publisher
        self._forms = {name: queue.form for name, queue in queues.items()}

    async def open(self) -> None:
        """Connect unless connected."""
        await self._publisher.open()

    async def close(self) -> None:
        """Disconnect."""
        await self._publisher.close()

    async def publish(self, message: MessageClaim) -> None:
        """Publish a message; see `Publisher.publish`."""
        form = self._forms.get(message.message_type)
        await self._publisher.publish(message if form is None else form(message))
