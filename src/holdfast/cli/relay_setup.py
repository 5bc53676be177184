"""The relay of a command: its options, and where its messages go."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from holdfast import bootstrap
from holdfast.cli.usage import UsageError
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.outbox import Publisher, Relay, RelayOptions
from holdfast.settings import Environment

if TYPE_CHECKING:
    from holdfast.http import ServedApp
    from holdfast.messaging import DeadLetterQueue

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
        return RabbitPublisher(url)
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
