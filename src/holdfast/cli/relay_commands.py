"""Commands that deal with messages: `relay` and `outbox list`."""

import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime

from holdfast import bootstrap
from holdfast.cli.app_discovery import find_workable, has_installed
from holdfast.cli.relay_setup import BROKER, make_relay
from holdfast.cli.startup import opened
from holdfast.cli.tables import one_line, print_rows
from holdfast.cli.telemetry_setup import exposed_metrics
from holdfast.cli.usage import UsageError
from holdfast.cli.worker_setup import database_address, set_up_log
from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.signals import stop_on_signals
from holdfast.outbox import MessageStatus, OutboxMessage
from holdfast.settings import Environment, Settings

_COLUMNS = (
    "id", "created_at", "status", "retry_count", "message_type", "aggregate_id", "error_message",
)  # fmt: skip


def relay(apps: Sequence[str], database: str | None = None, *, until_idle: bool = False) -> int:
    """Publish the messages of the outbox until SIGTERM or Ctrl-C, or until there is none.

    They go to the RabbitMQ at RABBITMQ_URL, where the queues of `apps` are declared; without that
    setting to the jobs of `apps`. Where none is named, these are all that are installed. A broker
    or a store that does not answer is waited for.
    """
    environment = Environment(os.environ)
    settings = Settings.load(environment)
    needed = bool(apps) or has_installed() or environment.text(BROKER) is None
    found = find_workable(apps, os.environ) if needed else []
    set_up_log(settings, os.environ)
    declared = [app if isinstance(app, App) else app.app for app in found]
    engine = bootstrap.Engine(database_address(settings, database), apps=declared)
    relay = make_relay(environment, engine, found)
    if relay is None:
        raise UsageError(f"nothing takes messages: set {BROKER}, or name an app whose jobs do")

    async def run() -> None:
        stopped = asyncio.Event()

        def stop() -> None:
            stopped.set()
            relay.stop()

        async with AsyncExitStack() as stack:
            stack.enter_context(stop_on_signals(stop))
            if await opened(engine, stack, "holdfast relay", stopped):
                await relay.run(until_idle=until_idle)

    with exposed_metrics(settings, declared) as (registry, _):
        if registry is not None:
            from holdfast.telemetry.prometheus import RelayCollector

            registry.register(RelayCollector(relay))
        asyncio.run(run())
    return 0


def list_messages(
    database: str | None = None,
    *,
    status: str | None = None,
    limit: int = 50,
    as_json: bool = False,
) -> int:
    """Print the newest messages: a table on a terminal, TSV when piped, or JSON."""
    settings = Settings.load(Environment(os.environ))
    set_up_log(settings, os.environ)
    url = database_address(settings, database)
    wanted = None if status is None else MessageStatus(status)

    async def read() -> tuple[OutboxMessage, ...]:
        async with bootstrap.Engine(url) as engine:
            return (await engine.outbox.list(wanted, limit=limit)).messages

    messages = asyncio.run(read())
    if as_json:
        print(json.dumps([_as_json(message) for message in messages], indent=2))
        return 0
    print_rows([_COLUMNS, *(_cells(message) for message in messages)])
    return 0


def _as_json(message: OutboxMessage) -> dict[str, object]:
    fields = asdict(message)
    names = {name: "".join(_camel(name)) for name in fields}
    times = {name: getattr(message, name) for name in ("created_at", "processed_at", "due_at")}
    shown = fields | {name: None if at is None else _moment(at) for name, at in times.items()}
    shown["payload"] = json.loads(message.payload)
    shown["headers"] = None if message.headers is None else json.loads(message.headers)
    return {names[name]: value for name, value in shown.items()}


def _camel(name: str) -> list[str]:
    first, *rest = name.split("_")
    return [first, *(word.capitalize() for word in rest)]


def _cells(message: OutboxMessage) -> tuple[str, ...]:
    values = (getattr(message, name) for name in _COLUMNS)
    named = zip(_COLUMNS, values, strict=True)
    return tuple(
        _moment(value) if name == "created_at" else one_line(value) for name, value in named
    )


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
